//! A handler's panic: caught, with its message, and its location where the hook is installed (K5).

use std::{
    any::Any,
    cell::{Cell, RefCell},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Once,
    task::{Context, Poll},
};

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Puts the location of a handler's panic on record beside its message. Optional, because a panic
/// hook is the whole process's: call it in `main`. The hook that was there still runs.
pub fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_HANDLER.get() {
                LOCATION.set(info.location().map(ToString::to_string));
            }
            before(info);
        }));
    });
}

/// Polls a future and turns its panic into a text.
pub(crate) struct Caught<F>(pub Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Of an earlier panic that the handler caught itself.
        LOCATION.take();
        let outer = IN_HANDLER.replace(true);
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        IN_HANDLER.set(outer);
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(describe(panic.as_ref()))),
        }
    }
}

pub(crate) fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    match LOCATION.take() {
        Some(location) => format!("panicked at {location}: {text}"),
        None => format!("panicked: {text}"),
    }
}
