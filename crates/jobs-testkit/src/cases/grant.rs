//! Cases: grant.

super::cases![];
