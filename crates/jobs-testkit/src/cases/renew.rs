//! Cases: renew.

super::cases![];
