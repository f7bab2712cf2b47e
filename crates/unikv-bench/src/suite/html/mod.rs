//! One page that needs nothing else: text, tables and drawings of everything measured.

mod charts;
mod curves;
mod pictures;
mod section;

use super::drive::limit_in_words;
use super::experiments;
use super::results::Results;
use crate::failure::Failure;
use charts::colour;
pub use pictures::write_pictures;
use plotters::style::RGBColor;
use section::Section;
use serde_json::Value;
use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.45 sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#222}\
h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2.2em;border-top:1px solid #ccc;padding-top:.8em}\
h3{font-size:1.05em;margin:1.2em 0 .3em}\
table{border-collapse:collapse;font-size:13px;margin:.6em 0 1.2em}\
th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid #e4e4e4;white-space:nowrap}\
th{background:#f4f4f4}td:first-child,th:first-child,td.text{text-align:left}\
th.text{text-align:left}td.text{white-space:normal}.wide{overflow-x:auto}\
.best{font-weight:bold}.charts svg{max-width:100%;height:auto;margin:0 .6em .6em 0}\
.key{display:inline-block;width:.9em;height:.9em;margin:0 .35em 0 1em;vertical-align:-.1em}\
.warning{background:#fff3cd;padding:.5em .8em;border:1px solid #e0c060}\
.legend{position:sticky;top:0;background:#fffd;padding:.4em 0}";

/// Text that means what it says in a page.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

/// The engines of `results`, in the order in which they first appear.
fn engines(results: &Results) -> Vec<String> {
    let mut engines = Vec::new();
    for run in &results.runs {
        if !engines.contains(&run.engine) {
            engines.push(run.engine.clone());
        }
    }
    engines
}

/// The page.
///
/// # Errors
/// A chart cannot be drawn.
pub fn page(results: &Results) -> Result<String, Failure> {
    let engines = engines(results);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Key-value stores beside each other</title><style>{STYLE}</style></head><body>\n\
         <h1>Key-value stores beside each other</h1>\n"
    );
    head(results, &mut out);
    legend(&engines, &mut out);
    settings(results, &engines, &mut out);
    for experiment in experiments::all() {
        let section = Section::new(&experiment, results, &engines);
        section.write(&mut out)?;
    }
    out.push_str("</body></html>\n");
    Ok(out)
}

fn head(results: &Results, out: &mut String) {
    let mut longest = results.runs.iter();
    let longest = longest.find_map(|run| run.asked.longest_phase_seconds);
    let longest = longest.map(|seconds| {
        format!(" Of phases longer than {seconds} s only the first {seconds} s are done and shown.")
    });
    let _ = writeln!(
        out,
        "<p>Scale {} of the papers' sizes{}. Every value read was verified. Keys have 24 bytes; nothing \
         is compressed; a write has reached the kernel when it is acknowledged, or the device where a \
         run says synced. Each engine may use five eighths of the memory there is, named as \
         memory below; the rest is page cache.{}</p>",
        results.scale,
        results
            .commit
            .as_ref()
            .map(|commit| format!(", commit {}", escape(commit)))
            .unwrap_or_default(),
        longest.unwrap_or_default()
    );
    let class = if results.limited {
        ""
    } else {
        " class=\"warning\""
    };
    let _ = writeln!(out, "<p{class}>{}</p>", limit_in_words(results.limited));
    if let Value::Object(machine) = &results.machine {
        out.push_str("<table><tr><th>machine</th><th></th></tr>\n");
        for (name, value) in machine.iter().filter(|(_, value)| !value.is_null()) {
            let value = match value {
                Value::String(text) => escape(text),
                value => value.to_string(),
            };
            let name = escape(&name.replace('_', " "));
            let _ = writeln!(
                out,
                "<tr><td>{name}</td><td class=\"text\">{value}</td></tr>"
            );
        }
        out.push_str("</table>\n");
    }
    if !results.skipped.is_empty() {
        out.push_str("<p class=\"warning\">Left out: ");
        out.push_str(&escape(&results.skipped.join("; ")));
        out.push_str("</p>\n");
    }
}

fn legend(engines: &[String], out: &mut String) {
    out.push_str("<p class=\"legend\">");
    for (place, engine) in engines.iter().enumerate() {
        let RGBColor(r, g, b) = colour(place);
        let _ = write!(
            out,
            "<span class=\"key\" style=\"background:#{r:02x}{g:02x}{b:02x}\"></span>{}",
            escape(engine)
        );
    }
    out.push_str("</p>\n");
}

/// Versions and settings, each of the first run of an engine.
fn settings(results: &Results, engines: &[String], out: &mut String) {
    out.push_str(
        "<table><tr><th>engine</th><th class=\"text\">version</th><th class=\"text\">settings of its first run</th></tr>\n",
    );
    for engine in engines {
        let Some(run) = results.runs.iter().find(|run| run.engine == *engine) else {
            continue;
        };
        let settings = run
            .settings
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        let settings = settings.collect::<Vec<_>>().join("; ");
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>",
            escape(engine),
            escape(&run.version),
            escape(&settings)
        );
    }
    out.push_str("</table>\n");
}
