// SPDX-License-Identifier: LGPL-2.1-or-later
// A Rust program with a generic, a trait method and a closure on its stack, blocked in read().
use std::io::{Read, Write};

trait Station {
    fn stop_here(&self, depth: u32) -> u32;
}

struct Depot {
    name: String,
}

impl Station for Depot {
    #[inline(never)]
    fn stop_here(&self, depth: u32) -> u32 {
        println!("ready {} {}", std::process::id(), self.name);
        std::io::stdout().flush().unwrap();
        let mut line = [0u8; 64];
        loop {
            match std::io::stdin().read(&mut line) {
                Ok(0) | Err(_) => std::process::exit(depth as i32 & 0),
                Ok(_) => {}
            }
        }
    }
}

#[inline(never)]
fn travel<S: Station>(station: &S, depth: u32) -> u32 {
    if depth == 0 {
        station.stop_here(depth) + 1
    } else {
        travel(station, depth - 1) + 1
    }
}

#[inline(never)]
fn call_it(function: &dyn Fn(u32) -> u32) -> u32 {
    function(2) + 1
}

fn main() {
    let depot = Depot { name: String::from("depot") };
    let total = call_it(&|depth| travel(&depot, depth) + 1);
    println!("{}", total);
}
