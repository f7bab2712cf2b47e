//! Bars that show on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};

/// Sets a template; one that does not parse leaves the default style.
pub fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
