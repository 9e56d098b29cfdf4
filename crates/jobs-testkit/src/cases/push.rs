//! Cases: push.

super::cases![];
