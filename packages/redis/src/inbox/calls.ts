import { ConfigurationError, type OncewardError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import type { Evaluate } from '../client.ts'
import { isRefusal, toStartError, toStoreError } from '../errors.ts'
import { inBudget } from '../time-budget.ts'
import type { InboxScriptName, InboxScripts } from './lua.ts'

/** A call of an event that Redis does not answer by then is given up, ms. */
const ANSWER_MS = 10_000

export interface InboxCall {
  readonly script: InboxScriptName
  readonly keys: readonly string[]
  readonly args: readonly (string | Buffer)[]
}

/** Runs a script of the inbox. @throws {@link StoreUnavailableError} */
export type CallInbox = (call: InboxCall) => Promise<readonly unknown[]>

/** What came of a call that may have changed data although no answer came. */
export type Sent =
  | { readonly kind: 'answered'; readonly answer: readonly unknown[] }
  /** The server has answered with an error before it wrote anything. */
  | { readonly kind: 'refused'; readonly error: OncewardError }
  | { readonly kind: 'unknown'; readonly error: OncewardError }

export interface InboxCalls {
  readonly call: CallInbox
  readonly send: (call: InboxCall) => Promise<Sent>
}

export function inboxCalls(evaluate: Evaluate, scripts: InboxScripts): InboxCalls {
  const ask = async ({ script, keys, args }: InboxCall): Promise<readonly unknown[]> => {
    const asked = evaluate({ ...scripts[script], keys, args })
    const answer = await inBudget(asked, { runtime: systemRuntime, budgetMs: ANSWER_MS })
    return Array.isArray(answer) ? answer : [answer]
  }
  return {
    call: async (call) => {
      try {
        return await ask(call)
      } catch (error) {
        throw toStoreError(error, call.script, 'redisInbox')
      }
    },
    send: async (call) => {
      try {
        return { kind: 'answered', answer: await ask(call) }
      } catch (error) {
        const kind = isRefusal(error) ? 'refused' : 'unknown'
        return { kind, error: toStoreError(error, call.script, 'redisInbox') }
      }
    },
  }
}

/** What `open` finds. */
export interface Opened {
  readonly id: string
  readonly secret: Uint8Array
  /** The fingerprint rule of the guard that registered before. */
  readonly ruleBefore: string
  readonly hasJson: boolean
  readonly info: ReadonlyMap<string, string>
}

export async function openInbox(
  call: CallInbox,
  request: Pick<InboxCall, 'keys' | 'args'>,
): Promise<Opened> {
  const answer = await call({ script: 'open', ...request }).catch((error: unknown) => {
    throw toStartError(error)
  })
  const [id, secret, ruleBefore, hasJson, text] = answer
  if (typeof id !== 'string' || typeof secret !== 'string') {
    throw new ConfigurationError(
      'Expected Redis to answer the settings of redisInbox(). Give it a client that returns text and on which nothing else opens a transaction (MULTI).',
    )
  }
  const lines = String(text).split(/\r?\n/)
  const info = new Map(lines.map((line) => line.split(/:(.*)/, 2) as [string, string]))
  return {
    id,
    secret: Buffer.from(secret, 'base64'),
    ruleBefore: String(ruleBefore),
    hasJson: Number(hasJson) === 1,
    info,
  }
}
