//! Cases: admin.

super::cases![];
