//! Cases: stale.

super::cases![];
