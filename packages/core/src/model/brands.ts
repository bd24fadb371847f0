/**
 * The terms of the design as types. A value has a brand if confusing it with another could lose a message. Each brand
 * is created by exactly one function of this package.
 */
declare const brand: unique symbol
type Brand<Value, Name extends string> = Value & { readonly [brand]: Name }

/** Identity of the event, as its producer defines it: well formed, 1–1024 bytes in UTF-8. A longer one is its hash. */
export type EventKey = Brand<string, 'EventKey'>

/** Leading 128 bits of SHA-256 over consumer, tenant and key, written as a lower-case UUID. The key of all stores. */
export type EventId = Brand<string, 'EventId'>

/** Random UUID of one claim. Every renew, complete, fail, release and bury compares it. */
export type OwnerToken = Brand<string, 'OwnerToken'>

/**
 * Identifies the payload: a signed 64-bit integer. The low 8 bits are the version of the rule that made it (0 = none).
 * Fingerprints of different versions are *unknown* to each other and never conflict.
 */
export type Fingerprint = Brand<bigint, 'Fingerprint'>

/** An instant in milliseconds since the Unix epoch, on the clock of this process. */
export type EpochMs = Brand<number, 'EpochMs'>

/**
 * Everything that JSON can represent. Excludes BigInt, dates and driver results, so that they are not stored by
 * accident.
 */
export type Json =
  | bigint
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [name: string]: Json | undefined }

export const toEpochMs = (milliseconds: number): EpochMs => milliseconds as EpochMs
