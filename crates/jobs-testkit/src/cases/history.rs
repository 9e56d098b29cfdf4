//! Cases: history.

super::cases![];
