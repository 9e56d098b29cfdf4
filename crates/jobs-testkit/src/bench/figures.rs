//! Medians and percentiles.

/// The value below which `share` of the sorted values lie, by nearest rank; 0 of none.
pub(super) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len().saturating_sub(1) as f64 * share).round();
    sorted.get(rank as usize).copied().unwrap_or_default()
}

/// The middle of values in any order, the mean of the two middle ones of an even number; 0 of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    (at(low) + at(high)) / 2.0
}

/// With so many digits after the point.
pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (0..=100).map(f64::from).collect();
        let of = |share| percentile(&hundred, share);
        assert_eq!((of(0.0), of(0.5), of(0.99), of(1.0)), (0.0, 50.0, 99.0, 100.0));
        assert_eq!((percentile(&[7.0], 0.99), percentile(&[], 0.5)), (7.0, 0.0));
        assert_eq!(percentile(&[1.0, 2.0], 0.99), 2.0);
    }

    #[test]
    fn medians_do_not_care_for_order_or_outliers() {
        assert_eq!(median(vec![900.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 90.0]), 3.0);
        assert_eq!((median(vec![5.0]), median(vec![])), (5.0, 0.0));
    }

    #[test]
    fn digits_after_the_point() {
        assert_eq!((rounded(1.2345, 2), rounded(1999.6, 0)), (1.23, 2000.0));
    }
}
