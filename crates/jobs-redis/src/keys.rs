//! Slots: which shard a tenant is in, and what the shard's keys begin with.
//!
//! All of a tenant's queues are in one shard, and all keys of a shard in one slot, by the hash tag
//! `{prefix:shard}`. The names behind the tag are in `op/prelude.lua`.

/// Which of `shards` a tenant is in. Stored data lies by it: it never changes.
pub(crate) fn shard_of(tenant: &str, shards: u32) -> u32 {
    // FNV-1a (Fowler, Noll, Vo, 1991), 64 bits.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = tenant.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    u32::try_from(hash % u64::from(shards.max(1))).unwrap_or_default()
}

/// A key of a shard.
pub(crate) fn key(prefix: &str, shard: u32, name: &str) -> String {
    format!("{{{prefix}:{shard}}}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_shard_stays_what_it_was() {
        let of = |shards| ["acme", "globex", "a", ""].map(|tenant| shard_of(tenant, shards));
        assert_eq!(of(1), [0; 4]);
        assert_eq!(of(16), [15, 14, 12, 5]);
        assert_eq!(key("jobs", 3, "meta"), "{jobs:3}:meta");
    }
}
