//! Scripts: a header, what all of them begin with, and one file of `op` each.

use std::sync::OnceLock;

/// A script, by its text; the server knows it by its hash.
pub(crate) struct Script {
    parts: &'static [&'static str],
    made: OnceLock<(String, String)>,
}

impl Script {
    /// Of these parts, in order.
    pub const fn new(parts: &'static [&'static str]) -> Self {
        Self { parts, made: OnceLock::new() }
    }

    /// Its hash and its text.
    pub fn get(&self) -> (&str, &str) {
        let (hash, text) = self.made.get_or_init(|| {
            let text = self.parts.concat();
            (fred::util::sha1_hash(&text), text)
        });
        (hash, text)
    }
}

/// Runs also where the server is at its maxmemory: without that a full one could not drain itself.
pub(crate) const ALWAYS: &str = "#!lua flags=allow-oom\n";
/// Refused where the server is at its maxmemory, before its first command.
pub(crate) const IF_ROOM: &str = "#!lua\n";
/// What every script begins with.
pub(crate) const PRELUDE: &str = include_str!("op/prelude.lua");
/// For scripts that walk over lanes.
pub(crate) const LANES: &str = include_str!("op/lanes.lua");
/// For scripts that read a reserve's wish.
pub(crate) const WISH: &str = include_str!("op/wish.lua");

/// A script of `op`.
macro_rules! script {
    ($name:ident, $header:ident, $file:literal $(, $part:ident)*) => {
        static $name: $crate::script::Script = $crate::script::Script::new(&[
            $crate::script::$header,
            $crate::script::PRELUDE,
            $($crate::script::$part,)*
            include_str!($file),
        ]);
    };
}
pub(crate) use script;
