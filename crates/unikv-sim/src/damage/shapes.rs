//! The shapes of small databases, each with the files and contents that its name says.

mod features;
mod plain;
mod steps;

use super::maker::{Exit, Maker};
use super::specimen::{FileKind, Specimen};
use crate::config::Config;

/// How a database is made: what is common to it and an older incarnation of it, and what is not.
#[derive(Clone, Copy)]
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    config: fn() -> Config,
    base: fn(&mut Maker),
    rest: fn(&mut Maker),
    exit: Exit,
    /// The kinds of file beside `CURRENT`, `MANIFEST` and `LOCK`.
    kinds: &'static [FileKind],
}

/// All of them.
pub const SHAPES: [Shape; PLAIN + FEATURES] = {
    let mut all = [plain::SHAPES[0]; PLAIN + FEATURES];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < PLAIN {
            plain::SHAPES[n]
        } else {
            features::SHAPES[n - PLAIN]
        };
        n += 1;
    }
    all
};

const PLAIN: usize = plain::SHAPES.len();
const FEATURES: usize = features::SHAPES.len();

impl Shape {
    fn made(&self, seed: u64, incarnation: u64) -> Maker {
        let mut maker = Maker::new((self.config)(), seed);
        (self.base)(&mut maker);
        let mut maker = maker.fork(incarnation);
        (self.rest)(&mut maker);
        maker
    }

    /// A database of this shape.
    pub fn build(&self, seed: u64) -> Specimen {
        let twins = vec![
            self.made(seed + 100, 4).twin("another-database", self.exit),
            self.made(seed, 3).twin("an-older-incarnation", self.exit),
        ];
        let specimen = self.made(seed, 2).finish(self.name, self.exit, twins);
        for kind in self.kinds {
            let found = specimen.files_of(&[*kind]);
            assert!(!found.is_empty(), "no file of kind {kind:?}");
        }
        specimen
    }
}
