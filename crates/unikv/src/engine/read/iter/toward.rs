//! The two ways through a range.

/// Which way an end of an iteration goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Upper,
    Lower,
}

impl Toward {
    pub(super) fn other(self) -> Toward {
        match self {
            Toward::Upper => Toward::Lower,
            Toward::Lower => Toward::Upper,
        }
    }
}
