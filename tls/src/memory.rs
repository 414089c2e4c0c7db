//! What `std` would bring and this library does without: memory of the C library, and an end where
//! something is wrong with ourselves.
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(at: *mut c_void);
    fn posix_memalign(at: *mut *mut c_void, alignment: usize, size: usize) -> i32;
    fn abort() -> !;
}

struct OfC;

/// What every `malloc` aligns to.
const ALIGNED: usize = 16;

unsafe impl GlobalAlloc for OfC {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            return malloc(layout.size()).cast();
        }
        let mut at = core::ptr::null_mut();
        if posix_memalign(&mut at, layout.align(), layout.size()) != 0 {
            return core::ptr::null_mut();
        }
        at.cast()
    }
    unsafe fn dealloc(&self, at: *mut u8, _: Layout) {
        free(at.cast());
    }
}

#[global_allocator]
static MEMORY: OfC = OfC;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}
