//! The options of a database, by name.

use crate::boundary::args::{Size, Time};
use crate::boundary::errors::Fault;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::time::Duration;
use unikv::{
    Clustering, Compression, Durability, EffectiveOptions, KeyspaceOptions, Options, Tuning,
};

#[cold]
fn no_value(name: &str, value: &Bound<'_, PyAny>, expected: &'static str) -> Fault {
    let shown = value
        .repr()
        .map_or_else(|_| "this".to_owned(), |text| text.to_string());
    let what = format!("{shown} is no value of the option `{name}`");
    Fault::invalid(what, expected)
}

fn boolean(name: &str, value: &Bound<'_, PyAny>) -> Result<bool, Fault> {
    value
        .extract()
        .map_err(|_| no_value(name, value, "use True or False"))
}

fn number<'py, T: for<'a> FromPyObject<'a, 'py>>(
    name: &str,
    value: &Bound<'py, PyAny>,
) -> Result<T, Fault> {
    value
        .extract()
        .map_err(|_| no_value(name, value, "use a number"))
}

fn size(name: &str, value: &Bound<'_, PyAny>) -> Result<u64, Fault> {
    let size = value.extract().map(|Size(bytes)| bytes);
    size.map_err(|_| {
        let expected = "use a number of bytes, or a text such as \"512MB\" or \"64KiB\"";
        no_value(name, value, expected)
    })
}

fn small_size(name: &str, value: &Bound<'_, PyAny>) -> Result<u32, Fault> {
    let bytes = size(name, value)?;
    u32::try_from(bytes).map_err(|_| no_value(name, value, "use less than 4 GiB"))
}

fn time(name: &str, value: &Bound<'_, PyAny>) -> Result<Duration, Fault> {
    let time = value.extract().map(|Time(time)| time);
    time.map_err(|_| no_value(name, value, "use a number of seconds, or a timedelta"))
}

fn durability(name: &str, value: &Bound<'_, PyAny>) -> Result<Durability, Fault> {
    let expected =
        "use \"buffered\", \"sync\", or a time after which the log is synced at the latest";
    match value.cast::<PyString>() {
        Ok(text) if text == "buffered" => Ok(Durability::Buffered),
        Ok(text) if text == "sync" => Ok(Durability::Sync),
        Ok(_) => Err(no_value(name, value, expected)),
        Err(_) => match value.extract() {
            Ok(Time(every)) => Ok(Durability::Periodic(every)),
            Err(_) => Err(no_value(name, value, expected)),
        },
    }
}

fn clustering(name: &str, value: &Bound<'_, PyAny>) -> Result<Clustering, Fault> {
    match value.extract::<String>().unwrap_or_default().as_str() {
        "automatic" => Ok(Clustering::Automatic),
        "least_writing" => Ok(Clustering::LeastWriting),
        _ => Err(no_value(
            name,
            value,
            "use \"automatic\" or \"least_writing\"",
        )),
    }
}

fn compression(name: &str, value: &Bound<'_, PyAny>) -> Result<Compression, Fault> {
    if value.is_none() {
        return Ok(Compression::None);
    }
    let text = value.extract::<String>().unwrap_or_default();
    text.parse()
        .map_err(|_| no_value(name, value, "use None, \"lz4\", \"zstd\" or \"zstd:LEVEL\""))
}

/// A time as seconds; for ever is infinity.
fn seconds(time: Duration) -> f64 {
    match time {
        Duration::MAX => f64::INFINITY,
        time => time.as_secs_f64(),
    }
}

fn durability_to_python(py: Python<'_>, durability: Durability) -> PyResult<Bound<'_, PyAny>> {
    Ok(match durability {
        Durability::Buffered => "buffered".into_pyobject(py)?.into_any(),
        Durability::Sync => "sync".into_pyobject(py)?.into_any(),
        Durability::Periodic(every) => seconds(every).into_pyobject(py)?.into_any(),
        other => format!("{other:?}").into_pyobject(py)?.into_any(),
    })
}

fn compression_to_python(py: Python<'_>, compression: Compression) -> PyResult<Bound<'_, PyAny>> {
    Ok(match compression {
        Compression::None => py.None().into_bound(py),
        other => other.to_string().into_pyobject(py)?.into_any(),
    })
}

/// Forgets what the database stores of the options with these names.
fn unset(mut options: Options, names: &Bound<'_, PyAny>) -> Result<Options, Fault> {
    let expected = "use a list of names of options";
    let all: Vec<String> = names
        .extract()
        .map_err(|_| no_value("unset", names, expected))?;
    for name in all {
        options = options.unset(name.parse()?);
    }
    Ok(options)
}

macro_rules! table {
    (options { $($name:ident: $parse:ident,)* } tuning { $($tuned:ident: $parse_tuned:ident,)* }) => {
        /// The options that keywords name.
        pub(crate) fn parse(keywords: Option<&Bound<'_, PyDict>>) -> Result<Options, Fault> {
            let mut options = Options::default();
            // First, so that one that is set as well is set, whatever the order.
            if let Some(names) = keywords.map(|all| all.get_item("unset")).transpose()?.flatten() {
                options = unset(options, &names)?;
            }
            for (name, value) in keywords.iter().flat_map(|keywords| keywords.iter()) {
                let name: String = name.extract()?;
                match name.as_str() {
                    "unset" => {}
                    $(stringify!($name) => {
                        options = options.$name($parse(&name, &value)?);
                    })*
                    $(stringify!($tuned) => {
                        let tuning = Tuning::default().$tuned($parse_tuned(&name, &value)?);
                        options = options.tuning(tuning);
                    })*
                    _ => {
                        let all = [
                            $(stringify!($name),)* $(stringify!($tuned),)* "unset"
                        ];
                        return Err(unknown(&name, &all));
                    }
                }
            }
            Ok(options)
        }
    };
}

table! {
    options {
        durability: durability,
        memory_budget: size,
        max_space_amp: number,
        inline_value_bytes: small_size,
        compression: compression,
        default_ttl: time,
        clustering: clustering,
        change_window_bytes: size,
        latencies: boolean,
        slow_after: time,
        publish_stats: time,
    }
    tuning {
        memtable_bytes: size,
        unsorted_bytes: size,
        partition_bytes: size,
        key_table_bytes: size,
        block_bytes: small_size,
        background_threads: number,
        scan_merge_limit: number,
    }
}

#[cold]
fn unknown(name: &str, all: &[&str]) -> Fault {
    let what = format!(
        "there is no option `{name}`; the options are {}",
        all.join(", ")
    );
    Fault::invalid(what, "use one of these")
}

/// The options of a keyspace.
pub(crate) fn of_keyspace(
    inline_value_bytes: Option<&Bound<'_, PyAny>>,
    compress: Option<&Bound<'_, PyAny>>,
    default_ttl: Option<Time>,
) -> Result<KeyspaceOptions, Fault> {
    let mut options = KeyspaceOptions::default();
    if let Some(bytes) = inline_value_bytes {
        options = options.inline_value_bytes(small_size("inline_value_bytes", bytes)?);
    }
    if let Some(how) = compress {
        options = options.compression(compression("compression", how)?);
    }
    if let Some(Time(ttl)) = default_ttl {
        options = options.default_ttl(ttl);
    }
    Ok(options)
}

/// The options in effect, as a dict of what `open` takes.
pub(crate) fn show<'py>(
    py: Python<'py>,
    options: &EffectiveOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    macro_rules! plain {
        ($($name:ident)*) => {
            $(shown.set_item(stringify!($name), options.$name)?;)*
        };
    }
    plain! {
        memory_budget memtable_bytes unsorted_bytes partition_bytes inline_value_bytes max_space_amp
        key_table_bytes block_bytes background_threads scan_merge_limit change_window_bytes latencies
    }
    shown.set_item("durability", durability_to_python(py, options.durability)?)?;
    shown.set_item(
        "compression",
        compression_to_python(py, options.compression)?,
    )?;
    let clustering = match options.clustering {
        Clustering::LeastWriting => "least_writing",
        _ => "automatic",
    };
    shown.set_item("clustering", clustering)?;
    shown.set_item(
        "default_ttl",
        options.default_ttl.map_or(f64::INFINITY, seconds),
    )?;
    shown.set_item("slow_after", options.slow_after.map(seconds))?;
    shown.set_item("publish_stats", options.publish_stats.map(seconds))?;
    Ok(shown)
}
