import { fingerprintRuleOf } from '../identity/fingerprint.ts'
import type { CallerEvent } from '../model/guard-port.ts'
import type { CallerRetries, ResolvedOptions } from '../options/resolved-options.ts'
import { decodeAgain } from '../receive/decode-again.ts'
import type { OpenStores } from '../run/stores.ts'

/** The caller gets the error and decides, but a failure is still a failure for the log. */
const CALLER: CallerRetries = { isAnswer: () => false }

/**
 * The options of a guard for one event whose caller waits for the outcome: the caller says which event it is, and the body is
 * the JSON of its payload. A failed run leaves nothing behind, and nothing is dead-lettered.
 */
export function callerOptions(options: ResolvedOptions, caller: CallerEvent): ResolvedOptions {
  const { key, tenant, type } = caller
  const ofCaller = {
    callerRetries: CALLER,
    eventKey: [() => key],
    eventKeyChosen: true,
    tenant: tenant === undefined ? options.tenant : () => tenant,
    // One event has no order.
    orderingKeyChosen: false,
    decode: undefined,
    skip: undefined,
    split: undefined,
    fingerprintRule: fingerprintRuleOf(options.fingerprint, undefined),
    onConflict: 'ack',
    unknown: 'dead-letter',
  } as const
  const { routes } = options
  if (routes === undefined) return { ...options, ...ofCaller }
  const types = [...routes.byType].map(([name, own]) => [name, { ...own, ...ofCaller }] as const)
  return {
    ...options,
    ...ofCaller,
    routes: { type: type === undefined ? routes.type : [() => type], byType: new Map(types) },
  }
}

/** The same stores, connections and slots, with other options. */
export function storesWith(stores: OpenStores, options: ResolvedOptions): OpenStores {
  const { engine, leases } = stores
  if (engine === undefined) return { ...stores, leases: { ...leases, options } }
  return {
    ...stores,
    engine: { ...engine, options, decodeAgain: (event) => decodeAgain(options, event) },
    leases: leases && { ...leases, options },
  }
}
