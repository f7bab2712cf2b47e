//! No panic leaves an exported function, whatever is thrown.

use super::args::{Alone, New};
use super::fault::{self, Kind};
use super::handles;
use super::handles::object;
use std::ffi::{CString, c_char, c_int};

struct Thing(u32);

object!(Thing, "unikv_thing_t", b"ukv:test");

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("again");
    }
}

capi! { functions:
    /// Panics while it has an object to itself.
    fn unikv_test_panic(thing: Alone<Thing>, how: c_int; errptr) -> *mut c_char {
        thing.0 += 1;
        match how {
            0 => panic!("on purpose"),
            1 => std::panic::panic_any(PanicsWhenDropped),
            _ => std::ptr::null_mut(),
        }
    }

    /// Makes an object.
    fn unikv_test_thing() -> New<Thing> {
        New::of(Thing(0))
    }
}

#[test]
#[expect(unsafe_code, reason = "calls as C does")]
fn a_panic_becomes_an_error_and_the_object_stays() {
    type Panic = extern "C" fn(*mut u8, c_int, *mut *mut c_char) -> *mut c_char;
    // SAFETY: both have the representation of pointers, which is what the test is about.
    let call: Panic = unsafe { std::mem::transmute(unikv_test_panic as *const ()) };
    let thing = handles::place(Thing(0));
    let mut message: *mut c_char = std::ptr::null_mut();
    for how in [0, 1] {
        assert!(call(thing.cast(), how, &raw mut message).is_null());
        assert_eq!(fault::last(|fault| fault.unwrap().kind), Kind::Internal);
    }
    // SAFETY: a failed call leaves a string of its own.
    let text = unsafe {
        CString::from_vec_with_nul_unchecked(
            std::ffi::CStr::from_ptr(message)
                .to_bytes_with_nul()
                .to_vec(),
        )
    };
    super::memory::free(message.cast());
    assert!(
        text.to_str()
            .unwrap()
            .contains("a panic: without a message"),
        "{text:?}"
    );
    fault::forget();
    assert!(call(thing.cast(), 2, std::ptr::null_mut()).is_null());
    assert!(fault::last(|fault| fault.is_none()));
    assert_eq!(handles::take(thing.cast_const()).unwrap().0, 3);
    assert_eq!(handles::remove(thing.cast_const()).unwrap().0, 3);
}

#[test]
fn a_closed_handle_is_known_until_its_cell_is_used_again() {
    let first = handles::place(Thing(1));
    handles::remove(first.cast_const()).unwrap();
    for other in 0..500 {
        let place = handles::place(Thing(other));
        assert_ne!(place, first);
        handles::remove(place.cast_const()).unwrap();
        let Err(fault) = handles::get(first.cast_const()) else {
            panic!("a closed handle was taken");
        };
        assert!(fault.message.to_str().unwrap().contains("closed"));
    }
}

#[test]
fn two_threads_do_not_have_one_object() {
    let thing = handles::place(Thing(0));
    let address = thing as usize;
    let add = move || {
        let thing = address as *const handles::Cell<Thing>;
        let mut added = 0;
        while added < 10_000 {
            if let Ok(mut taken) = handles::take(thing) {
                taken.0 += 1;
                added += 1;
            }
        }
    };
    let threads = [std::thread::spawn(add), std::thread::spawn(add)];
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(handles::remove(thing.cast_const()).unwrap().0, 20_000);
}

#[test]
fn what_is_defined_for_tests_is_described_like_the_rest() {
    let described: Vec<_> = functions()
        .into_iter()
        .map(|f| (f.name, f.arguments))
        .collect();
    let pointer = |c: &str| c.to_owned();
    assert_eq!(described[0].0, "unikv_test_panic");
    assert_eq!(
        described[0].1,
        [
            (pointer("unikv_thing_t*"), "thing"),
            (pointer("int"), "how"),
            (pointer("char**"), "errptr")
        ]
    );
    assert_eq!(described[1].0, "unikv_test_thing");
}
