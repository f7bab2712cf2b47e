//! Prints the public interface of a crate, one line per item, from the JSON that rustdoc wrote.
//!
//! An implementation of a trait is one line, with its associated types: its methods are those of
//! the trait. Blanket and automatic implementations are left out; `tests/interface.rs` of the
//! engine says which handles are `Send` and `Sync`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args_os().nth(1).ok_or("usage: unikv-api JSON")?;
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .include_function_parameter_names(true)
        .build()?;
    let mut methods = None;
    for item in api.items() {
        let line = item.to_string();
        if line.starts_with("impl") {
            // A derive adds it beside `PartialEq`; stable code cannot name it.
            if line.contains("core::marker::StructuralPartialEq for ") {
                continue;
            }
            let implementor = line.split_once(" for ").map(|(_, rest)| rest);
            let name = implementor.and_then(|rest| rest.split(" where ").next());
            methods = name.map(|name| format!("pub fn {name}::"));
        } else if methods
            .as_ref()
            .is_some_and(|prefix| line.starts_with(prefix))
        {
            continue;
        }
        println!("{line}");
    }
    Ok(())
}
