//! G1 and G3: programs that forge authority must not compile. Each is as small as its point.

#[test]
fn g1_a_grant_cannot_be_forged() {
    let programs = trybuild::TestCases::new();
    programs.compile_fail("tests/forgery/*.rs");
}

/// `Grant` and `AuthorizedJob` implement neither `Deserialize` nor `Default`.
///
/// As a program that must compile: the refusal of the compiler would list all the types that do,
/// which changes with every dependency. With the trait, `_` would have two answers.
#[test]
fn g1_no_derive_makes_a_grant() {
    struct Forgeable;
    macro_rules! lacks {
        ($bound:path: $($type:ty),*) => {{
            trait Either<Answer> {
                fn is_unambiguous() {}
            }
            impl<T> Either<()> for T {}
            impl<T: $bound> Either<Forgeable> for T {}
            $(<$type as Either<_>>::is_unambiguous();)*
        }};
    }
    lacks!(serde::de::DeserializeOwned: jobs_core::Grant, jobs_core::AuthorizedJob);
    lacks!(Default: jobs_core::Grant, jobs_core::AuthorizedJob);
    lacks!(std::ops::DerefMut: jobs_core::AuthorizedJob);
}
