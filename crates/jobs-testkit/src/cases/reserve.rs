//! Cases: reserve.

super::cases![];
