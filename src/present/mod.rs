//! What people see: texts made of turns and refusals. Pure; it sends nothing, and never shows a secret it was told of.

pub mod answer;
pub mod details;
pub mod live;
pub mod markdown;
pub mod notice;
pub mod office;
pub mod office_chart;
pub mod office_chats;
pub mod office_people;
pub mod page;
pub mod plain;
pub mod secrets;
pub mod step;
pub mod units;
