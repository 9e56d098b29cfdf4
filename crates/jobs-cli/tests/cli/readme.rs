//! What the README says of operating is typed as it stands.

use clap::Parser;

use crate::{
    app::App,
    place::{Kind, Place},
};

crate::tests![&[Kind::Sqlite]; the_readmes_commands_are_commands];

async fn the_readmes_commands_are_commands(_: &Place) {
    let readme = include_str!("../../../../README.md");
    let section = readme.split("\n## ").find(|section| section.starts_with("Operate it"));
    let section = section.expect("README.md tells how to operate it");
    let commands: Vec<_> = section.lines().filter(|line| line.starts_with("app ")).collect();
    assert!(commands.len() >= 5, "{section}");
    for command in commands {
        let typed = command.split("  #").next().unwrap_or(command);
        if let Err(error) = App::try_parse_from(typed.split_whitespace()) {
            panic!("{typed}: {error}");
        }
    }
}
