//! A coordinator hears of the end of every session, however the program that opened it ends.

#[cfg(test)]
#[path = "parting/goodbyes.rs"]
mod goodbyes;
