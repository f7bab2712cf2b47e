//! LZ4, where the build has it.

/// Replaces `out` by the stored form of `raw` and some room; returns how long the form is.
#[cfg(feature = "lz4")]
pub(super) fn encode(raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.resize(lz4_flex::block::get_maximum_output_size(raw.len()), 0);
    lz4_flex::block::compress_into(raw, out).ok()
}

#[cfg(feature = "lz4")]
pub(super) fn decode(stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
    lz4_flex::block::decompress_into(stored, raw).map_err(|_| "the LZ4 block is malformed")
}

#[cfg(not(feature = "lz4"))]
pub(super) fn encode(_raw: &[u8], _out: &mut Vec<u8>) -> Option<usize> {
    None
}

#[cfg(not(feature = "lz4"))]
pub(super) fn decode(_stored: &[u8], _raw: &mut [u8]) -> Result<usize, &'static str> {
    Err("this build lacks LZ4")
}
