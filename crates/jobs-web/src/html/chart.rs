//! An hour in bars: finished and failed of each minute.

use jobs_core::words::grouped;
use maud::{Markup, html};

use crate::sums::{HOUR, Sum};

const HEIGHT: u64 = 32;

/// As a picture, and in words for whoever does not see it.
pub(super) fn chart(sum: &Sum, of: &str) -> Markup {
    let [finished, failed] = sum.hour();
    let most = sum.minutes.iter().map(|[a, b]| a + b).max().unwrap_or_default();
    let words = format!(
        "{of}, last hour: {} finished, {} failed, at most {} in a minute",
        grouped(finished),
        grouped(failed),
        grouped(most)
    );
    html! {
        svg.chart viewBox={ "0 0 " (HOUR * 3) " " (HEIGHT) } role="img" aria-label=(words)
            preserveAspectRatio="none" {
            title { (words) }
            line x1="0" x2=(HOUR * 3) y1=(HEIGHT) y2=(HEIGHT) {}
            @for (place, [finished, failed]) in sum.minutes.iter().enumerate() {
                @let (down, up) = (tall(*failed, most), tall(*finished, most));
                @if up > 0 {
                    rect.finished x=(place * 3) y=(HEIGHT - (up + down).min(HEIGHT)) width="2" height=(up) {}
                }
                @if down > 0 { rect.failed x=(place * 3) y=(HEIGHT - down) width="2" height=(down) {} }
            }
        }
        small.hour { (grouped(finished)) " finished, " (grouped(failed)) " failed" }
    }
}

/// What is there is seen, however much more another minute had.
fn tall(number: u64, most: u64) -> u64 {
    let height = u128::from(number) * u128::from(HEIGHT) / u128::from(most.max(1));
    u64::try_from(height).unwrap_or(HEIGHT).max(u64::from(number > 0))
}
