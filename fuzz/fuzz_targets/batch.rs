//! What a record of the write-ahead log holds: operations, whole writes, the start of a segment,
//! the place of a large value; and a batch that a caller makes. The first byte says which.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use unikv::{Batch, fuzzing};
use unikv_fuzz::{allocation, typed};

fuzz_target!(|data: &[u8]| {
    let Some((&which, bytes)) = data.split_first() else {
        return;
    };
    // A batch has a head of 14 bytes for an operation that two of these are enough for, and is made
    // twice.
    let limit = 64 * bytes.len() + 4096;
    allocation::bounded(limit, || match which % 5 {
        0 => operations(bytes),
        1 => {
            let decoded = fuzzing::segment_start(bytes);
            if let Some(again) = typed::checked(decoded) {
                assert_eq!(again, bytes);
            }
        }
        2 => {
            if let Some((again, last)) = typed::checked(fuzzing::wal_write(bytes)) {
                assert_eq!(again, bytes);
                assert!(last < 1 << 56);
            }
        }
        3 => match fuzzing::external(bytes) {
            Some(again) => assert_eq!(again, bytes),
            None => assert_ne!(bytes.len(), 40),
        },
        _ => batch(bytes),
    });
});

fn operations(bytes: &[u8]) {
    let (again, _, bad) = fuzzing::operations(bytes);
    assert_eq!(again, bytes[..again.len()]);
    assert_eq!(bad.unwrap_or(bytes.len()), again.len());
}

/// Puts, deletes and range deletes through the public interface: the encoding is that of the
/// documentation.
fn batch(bytes: &[u8]) {
    let (mut input, mut batch) = (Unstructured::new(bytes), Batch::new());
    let (mut expected, mut count) = (Vec::new(), 0);
    while !input.is_empty() {
        let (Ok(is_put), Ok(key), Ok(value)) = (
            input.arbitrary::<bool>(),
            input.arbitrary::<&[u8]>(),
            input.arbitrary::<&[u8]>(),
        ) else {
            break;
        };
        if !is_put && !value.is_empty() {
            // The key and the value bound a range.
            batch.delete_range(key..value);
            if key < value {
                expected.extend_from_slice(&[3, 0]);
                expected.extend_from_slice(&(key.len() as u32 + 4).to_le_bytes());
                expected.extend_from_slice(&(value.len() as u32 + 4).to_le_bytes());
                for bound in [key, value] {
                    expected.extend_from_slice(&[0; 4]);
                    expected.extend_from_slice(bound);
                }
                count += 1;
            }
            continue;
        }
        let (kind, value): (u8, _) = if is_put { (1, value) } else { (2, &[][..]) };
        if is_put {
            batch.put(key, value)
        } else {
            batch.delete(key)
        };
        expected.extend_from_slice(&[kind, 0]);
        expected.extend_from_slice(&(key.len() as u32 + 4).to_le_bytes());
        expected.extend_from_slice(&(value.len() as u32).to_le_bytes());
        expected.extend_from_slice(&[0; 4]);
        expected.extend_from_slice(key);
        expected.extend_from_slice(value);
        count += 1;
    }
    assert_eq!(fuzzing::batch_bytes(&batch), expected);
    assert_eq!(fuzzing::operations(&expected).1, count);
    assert_eq!(batch.len(), count);
}
