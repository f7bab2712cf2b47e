//! Builds the stores that are written in Go, where they take part: go/ becomes a C archive.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=go");
    if env::var_os("CARGO_FEATURE_GO").is_none() {
        return Ok(());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let archive = out.join("libunikv_go_peers.a");
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-buildmode=c-archive", "-o"]);
    let status = go.arg(&archive).arg(".").current_dir("go").status();
    if !status.map_err(|error| format!("go: {error}"))?.success() {
        return Err("go could not build the stores in go/".into());
    }
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=unikv_go_peers");
    let modules = fs::read_to_string("go/go.mod")?;
    let version = |module: &str| {
        let mut lines = modules.lines().map(str::trim);
        let line = lines.find_map(|line| line.strip_prefix(module)?.strip_prefix(' '));
        line.map(str::to_owned)
            .ok_or_else(|| format!("go.mod does not name {module}"))
    };
    let pebble = version("github.com/cockroachdb/pebble/v2")?;
    let badger = version("github.com/dgraph-io/badger/v4")?;
    println!("cargo::rustc-env=PEBBLE_VERSION={pebble}");
    println!("cargo::rustc-env=BADGER_VERSION={badger}");
    Ok(())
}
