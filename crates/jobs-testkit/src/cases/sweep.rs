//! Cases: sweep.

super::cases![];
