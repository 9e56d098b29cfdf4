//! Cases: worker.

super::cases![];
