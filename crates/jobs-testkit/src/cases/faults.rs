//! Cases: faults.

super::cases![];
