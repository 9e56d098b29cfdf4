//! Cases: settle.

super::cases![];
