//! Cases: wake.

super::cases![];
