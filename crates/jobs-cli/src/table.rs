//! A table as people and `awk` read it: a heading, two spaces between columns, no frames.

use std::borrow::Cow;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::text;

/// Rows under a heading; a heading that ends in `#` is of numbers, which are set to the right.
pub(crate) fn table<'a, R>(heading: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = Cow<'a, str>>,
{
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.iter().map(|word| word.trim_end_matches('#')));
    for row in rows {
        table.add_row(row.into_iter().map(|cell| Cell::new(text::line(&cell))));
    }
    for (column, word) in table.column_iter_mut().zip(heading) {
        column.set_padding((0, 2));
        if word.ends_with('#') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
