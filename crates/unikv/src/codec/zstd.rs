//! Zstandard, where the build has it: contexts, digested dictionaries, training.
//!
//! Frames bear neither checksum nor content size nor the number of a dictionary: all three stand
//! where the frame does.

#[cfg(feature = "zstd")]
pub(super) use with::*;
#[cfg(not(feature = "zstd"))]
pub(super) use without::*;

#[cfg(feature = "zstd")]
mod with {
    use zstd::zstd_safe::{CCtx, CParameter, DCtx, DDict};

    /// Compresses at one level, with one dictionary or none.
    pub(in crate::codec) struct Compressor(CCtx<'static>);

    impl Compressor {
        pub(in crate::codec) fn new(level: i32, dictionary: &[u8]) -> Option<Compressor> {
            let mut context = CCtx::try_create()?;
            for parameter in [
                CParameter::CompressionLevel(level),
                CParameter::ContentSizeFlag(false),
                CParameter::ChecksumFlag(false),
                CParameter::DictIdFlag(false),
            ] {
                context.set_parameter(parameter).ok()?;
            }
            if !dictionary.is_empty() {
                context.load_dictionary(dictionary).ok()?;
            }
            Some(Compressor(context))
        }

        pub(in crate::codec) fn encode(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
            out.clear();
            out.reserve(zstd::zstd_safe::compress_bound(raw.len()));
            self.0.compress2(out, raw).ok()
        }
    }

    /// Decompresses one frame after the other.
    pub(in crate::codec) struct Decompressor(DCtx<'static>);

    impl Decompressor {
        pub(in crate::codec) fn new() -> Option<Decompressor> {
            DCtx::try_create().map(Decompressor)
        }

        pub(in crate::codec) fn decode(
            &mut self,
            stored: &[u8],
            raw: &mut [u8],
            dictionary: Option<&Digested>,
        ) -> Result<usize, &'static str> {
            let done = match dictionary {
                Some(Digested(dictionary)) => {
                    self.0.decompress_using_ddict(raw, stored, dictionary)
                }
                None => self.0.decompress(raw, stored),
            };
            done.map_err(|_| "the Zstandard frame is malformed")
        }

        pub(in crate::codec) fn memory_bytes(&self) -> usize {
            self.0.sizeof()
        }
    }

    /// A dictionary made ready for decompression.
    pub(in crate::codec) struct Digested(DDict<'static>);

    impl Digested {
        pub(in crate::codec) fn new(bytes: &[u8]) -> Option<Digested> {
            DDict::try_create(bytes).map(Digested)
        }
    }

    /// A dictionary of at most `most` bytes for the likes of `samples`, which stand one after the
    /// other and have these lengths.
    pub(in crate::codec) fn train(samples: &[u8], lens: &[usize], most: usize) -> Option<Vec<u8>> {
        zstd::dict::from_continuous(samples, lens, most).ok()
    }
}

#[cfg(not(feature = "zstd"))]
mod without {
    /// Stands for what this build lacks; there is none.
    pub(in crate::codec) enum Compressor {}

    impl Compressor {
        pub(in crate::codec) fn new(_level: i32, _dictionary: &[u8]) -> Option<Compressor> {
            None
        }

        pub(in crate::codec) fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<usize> {
            match *self {}
        }
    }

    /// As [`Compressor`].
    pub(in crate::codec) enum Decompressor {}

    impl Decompressor {
        pub(in crate::codec) fn new() -> Option<Decompressor> {
            None
        }

        pub(in crate::codec) fn decode(
            &mut self,
            _: &[u8],
            _: &mut [u8],
            _: Option<&Digested>,
        ) -> Result<usize, &'static str> {
            match *self {}
        }

        pub(in crate::codec) fn memory_bytes(&self) -> usize {
            match *self {}
        }
    }

    /// As [`Compressor`].
    pub(in crate::codec) enum Digested {}

    impl Digested {
        pub(in crate::codec) fn new(_bytes: &[u8]) -> Option<Digested> {
            None
        }
    }

    pub(in crate::codec) fn train(_: &[u8], _: &[usize], _: usize) -> Option<Vec<u8>> {
        None
    }
}
