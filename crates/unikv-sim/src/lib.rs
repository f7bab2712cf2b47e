//! Oracle, history generator and crash explorer.
