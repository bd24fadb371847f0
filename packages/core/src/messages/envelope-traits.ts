import type { DecodedDelivery, Delivery } from '../model/delivery.ts'
import { ConfigurationError } from '../model/errors.ts'
import type { Resolver } from '../options/options.ts'

/** A function for the option `decode`. */
export type Decode<Decoded> = (body: Uint8Array, delivery: Delivery) => Decoded | Promise<Decoded>

/** A function for the option `decode` that reads nothing but the body, so that it serves routes and webhooks too. */
export type Unwrap<Decoded> = (body: Uint8Array) => Decoded

/** What an envelope knows of its messages besides their payload. The guard's own options come before it. */
export interface EnvelopeTraits {
  /** What stands for its source code in the version of fingerprints: a new version of onceward decodes the same. */
  readonly name?: string | undefined
  /** Tried before the default resolvers. */
  readonly eventKey?: Resolver | undefined
  /** Skipped besides what the option `skip` says. */
  readonly skip?: ((delivery: DecodedDelivery<unknown>) => boolean) | undefined
  /** The part of the decoded body that the fingerprint `'body'` compares. Default: all of it. */
  readonly compared?: ((decoded: unknown) => unknown) | undefined
}

/** `Symbol.for`: the envelope may come from another copy of this package. */
const TRAITS = Symbol.for('onceward.envelope-traits')

export function withTraits<Decode extends object>(decode: Decode, traits: EnvelopeTraits): Decode {
  return Object.defineProperty(decode, TRAITS, { value: traits })
}

/** The traits of the option `decode`. None for functions of users. */
export function traitsOf(decode: unknown): EnvelopeTraits {
  const traits: unknown = typeof decode === 'function' ? Reflect.get(decode, TRAITS) : undefined
  return (traits as EnvelopeTraits | undefined) ?? {}
}

/** Gives a decoder of onceward its name. */
export function named<Decode extends object>(name: string, inner: unknown, decode: Decode): Decode {
  return withTraits(decode, { name: `${name}(${nameOf(inner)})` })
}

/** The name of a decoder of onceward, or the source code of the user's function. */
export function nameOf(decode: unknown): string {
  if (typeof decode !== 'function') return ''
  return traitsOf(decode).name ?? Function.prototype.toString.call(decode)
}

export function requireFunction(caller: string, value: unknown): void {
  if (typeof value === 'function') return
  throw new ConfigurationError(`${caller} expected a function first, got ${typeof value}.`)
}
