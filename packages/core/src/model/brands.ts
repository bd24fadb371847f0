/**
 * The words of the design as types. Brands only where a mix-up would be a lost message:
 * each is made by one function of this package and by nothing else.
 */
declare const brand: unique symbol
type Brand<Value, Name extends string> = Value & { readonly [brand]: Name }

/** Identity of the event, as its producer means it: well formed, 1–1024 bytes in UTF-8. */
export type EventKey = Brand<string, 'EventKey'>

/** Leading 128 bits of SHA-256 over consumer, tenant and key, written as a lower-case UUID. What all stores key by. */
export type EventId = Brand<string, 'EventId'>

/** Random id of one claim; every renew, complete, fail, release and bury compares it. A UUID. */
export type OwnerToken = Brand<string, 'OwnerToken'>

/**
 * What the payload was: a signed 64-bit integer. The low 8 bits are the version of the rule that made it
 * (0 = none); fingerprints of different versions are *unknown* to each other, never a conflict.
 */
export type Fingerprint = Brand<bigint, 'Fingerprint'>

/** An instant in milliseconds since the Unix epoch, on the clock of this process. */
export type EpochMs = Brand<number, 'EpochMs'>

/** What JSON can say. Excludes BigInt, dates and driver results, so that none of them is stored by accident. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [name: string]: Json | undefined }

export const toEpochMs = (milliseconds: number): EpochMs => milliseconds as EpochMs
