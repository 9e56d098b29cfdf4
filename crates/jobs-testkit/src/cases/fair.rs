//! Cases: fair.

super::cases![];
