//! What the C library costs over the Rust API: get, put and a step of an iterator, in
//! nanoseconds of CPU, each the least of several rounds that take turns. Or, with `get`, `put`
//! or `step` as argument, one round of one side alone (`rust` or `c`), for a tool that counts
//! instructions:
//!
//! ```sh
//! cargo run --release -p unikv-capi --example overhead
//! valgrind --tool=callgrind target/release/examples/overhead get c
//! ```

#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "a program that calls as C does, and prints what it has measured"
)]

use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use unikv::{Db, Options};
// Brings the functions below.
use unikv_capi as _;

const KEYS: u32 = 100_000;
const ROUNDS: usize = 15;
const VALUE: [u8; 100] = [7; 100];

type Handle = *mut c_void;

unsafe extern "C" {
    fn unikv_options_create() -> Handle;
    fn unikv_options_set_create_if_missing(options: Handle, yes: u8);
    fn unikv_open(options: Handle, name: *const c_char, errptr: *mut *mut c_char) -> Handle;
    fn unikv_close(db: Handle);
    fn unikv_put(
        db: Handle,
        options: Handle,
        key: *const u8,
        keylen: usize,
        val: *const u8,
        vallen: usize,
        errptr: *mut *mut c_char,
    );
    fn unikv_get(
        db: Handle,
        options: Handle,
        key: *const u8,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_void;
    fn unikv_get_into(
        db: Handle,
        options: Handle,
        key: *const u8,
        keylen: usize,
        buffer: *mut u8,
        capacity: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> u8;
    fn unikv_create_iterator(db: Handle, options: Handle) -> Handle;
    fn unikv_iter_destroy(iter: Handle);
    fn unikv_iter_valid(iter: Handle) -> u8;
    fn unikv_iter_seek_to_first(iter: Handle);
    fn unikv_iter_next(iter: Handle);
    fn unikv_iter_key(iter: Handle, len: *mut usize) -> *const u8;
    fn unikv_iter_value(iter: Handle, len: *mut usize) -> *const u8;
    fn unikv_iter_fill(
        iter: Handle,
        flags: i32,
        buffer: *mut u8,
        capacity: usize,
        entries: *mut usize,
        errptr: *mut *mut c_char,
    ) -> usize;
    fn unikv_compact(db: Handle, errptr: *mut *mut c_char);
    fn unikv_wait_until_idle(db: Handle, errptr: *mut *mut c_char);
    fn unikv_free(block: *mut c_void);
}

fn key(number: u32) -> [u8; 16] {
    let mut key = [b'k'; 16];
    // Neighbours in time are far apart in the order of keys.
    let spread = number.wrapping_mul(2_654_435_761);
    key[12..].copy_from_slice(&spread.to_be_bytes());
    key
}

/// CPU time of this thread, so that others on the machine count little.
fn cpu_ns() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn main() {
    let dir = tempfile::TempDir::new().unwrap();
    let (ours, theirs) = (dir.path().join("rust"), dir.path().join("c"));
    let db = Db::open(ours, Options::default()).unwrap();
    let name = CString::new(theirs.as_os_str().as_bytes()).unwrap();
    let mut error = null_mut();
    let c = unsafe {
        let options = unikv_options_create();
        unikv_options_set_create_if_missing(options, 1);
        unikv_open(options, name.as_ptr(), &raw mut error)
    };
    assert!(error.is_null());
    let put = || (0..KEYS).for_each(|number| db.put(key(number), VALUE).unwrap());
    let get = || {
        for number in 0..KEYS {
            black_box(db.get(black_box(key(number))).unwrap().unwrap());
        }
    };
    let step = || {
        let mut count = 0;
        for entry in db.iter() {
            black_box(entry.unwrap());
            count += 1;
        }
        assert_eq!(count, KEYS);
    };
    let put_c = || unsafe {
        for number in 0..KEYS {
            let (key, mut error) = (key(number), null_mut());
            let value = VALUE.as_ptr();
            unikv_put(c, null_mut(), key.as_ptr(), 16, value, 100, &raw mut error);
            assert!(error.is_null());
        }
    };
    let get_c = || unsafe {
        for number in 0..KEYS {
            let (key, mut error, mut len) = (key(number), null_mut(), 0);
            let value = unikv_get(
                c,
                null_mut(),
                key.as_ptr(),
                16,
                &raw mut len,
                &raw mut error,
            );
            assert!(len == 100 && error.is_null());
            unikv_free(value);
        }
    };
    let get_into_c = || unsafe {
        let mut buffer = [0; 128];
        for number in 0..KEYS {
            let (key, mut error, mut len) = (key(number), null_mut(), 0);
            let (to, len_to) = (buffer.as_mut_ptr(), &raw mut len);
            let error_to = &raw mut error;
            unikv_get_into(c, null_mut(), key.as_ptr(), 16, to, 128, len_to, error_to);
            assert!(len == 100 && error.is_null());
            black_box(&buffer);
        }
    };
    let step_c = || unsafe {
        let iter = unikv_create_iterator(c, null_mut());
        let (mut count, mut len) = (0, 0);
        unikv_iter_seek_to_first(iter);
        while unikv_iter_valid(iter) != 0 {
            assert!(!unikv_iter_key(iter, &raw mut len).is_null() && len == 16);
            assert!(!unikv_iter_value(iter, &raw mut len).is_null() && len == 100);
            unikv_iter_next(iter);
            count += 1;
        }
        unikv_iter_destroy(iter);
        assert_eq!(count, KEYS);
    };
    let fill_c = || unsafe {
        let iter = unikv_create_iterator(c, null_mut());
        let mut buffer = vec![0u8; 64 << 10];
        let (mut count, mut entries, mut error) = (0, 0, null_mut());
        unikv_iter_seek_to_first(iter);
        loop {
            let (to, capacity) = (buffer.as_mut_ptr(), buffer.len());
            unikv_iter_fill(iter, 0, to, capacity, &raw mut entries, &raw mut error);
            count += entries;
            if entries == 0 {
                break;
            }
        }
        unikv_iter_destroy(iter);
        assert_eq!(count, KEYS as usize);
    };

    put();
    put_c();
    // Both in the same state, with nothing in memory that the idle background would move.
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    unsafe {
        unikv_compact(c, &raw mut error);
        unikv_wait_until_idle(c, &raw mut error);
    }
    assert!(error.is_null());
    let all: [(&str, &str, &dyn Fn()); 8] = [
        ("get", "rust", &get),
        ("get", "c", &get_c),
        ("get", "c-into", &get_into_c),
        ("step", "rust", &step),
        ("step", "c", &step_c),
        ("step", "c-fill", &fill_c),
        ("put", "rust", &put),
        ("put", "c", &put_c),
    ];
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [what, side] = &arguments[..] {
        let run = all.iter().find(|(a, b, _)| a == what && b == side);
        run.unwrap().2();
    } else {
        let mut least = [f64::MAX; 8];
        // Puts come last, as they change what the others meet.
        for part in [0..3, 3..6, 6..8] {
            for _ in 0..ROUNDS {
                for (least, (_, _, run)) in
                    least.iter_mut().zip(&all).take(part.end).skip(part.start)
                {
                    let begun = cpu_ns();
                    run();
                    *least = least.min((cpu_ns() - begun) / f64::from(KEYS));
                }
            }
        }
        for (least, (what, side, _)) in least.iter().zip(&all) {
            println!("{what:5} {side:7} {least:6.0} ns");
        }
    }
    unsafe { unikv_close(c) };
}
