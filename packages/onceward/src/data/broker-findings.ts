import type { Findings, GuardSettings } from '@onceward/core/adapter'
import { DEFAULTS } from '@onceward/core/ports'
import { usage } from '../failure.ts'
import { spanMs } from '../span.ts'
import type { NamedBroker } from './broker-address.ts'
import type { OpenBroker } from './brokers.ts'
import type { Finding } from './finding.ts'

/** Dedup windows of the consumers that the tables know, in milliseconds. */
export type Windows = ReadonlyMap<string, number>

/** Findings of the queues that an address names, read with the eyes of the guard that consumes them. */
export async function brokerFindings(
  open: OpenBroker,
  windows: Windows,
): Promise<readonly Finding[]> {
  const { named } = open
  const consumer = consumerOf(named, windows)
  const dedupWindowMs = spanOf(named, 'window') ?? windows.get(consumer)
  if (dedupWindowMs === undefined) return [unknownConsumer(named, consumer)]
  const guard = settingsOf(named, consumer, dedupWindowMs)
  return toFindings(named, await open.ask((broker) => broker.inspect(guard)))
}

function consumerOf({ title, guard }: NamedBroker, windows: Windows): string {
  const [only, ...others] = windows.keys()
  const consumer = guard.consumer ?? (others.length === 0 ? only : undefined)
  if (consumer !== undefined) return consumer
  const names = [...windows.keys()].join(', ') || 'none is registered yet'
  throw usage(
    `Which consumer reads from ${title}? Add \`consumer=…\` to the address, one of: ${names}.`,
  )
}

/** What the tables do not know is taken from the address, or else as the guard has it by default. */
function settingsOf(named: NamedBroker, consumer: string, dedupWindowMs: number): GuardSettings {
  const { concurrency, deadlineMs, leaseMs, retry, transaction } = DEFAULTS
  const given = named.guard.attempts ?? String(retry.attempts)
  const attempts = Number(given)
  if (!(/^\d+$/.test(given) && Number.isSafeInteger(attempts) && attempts > 0)) {
    throw usage('Expected `attempts` in --broker to be a whole number from 1 up.')
  }
  return {
    ...{ consumer, dedupWindowMs, concurrency, transaction, retryMaxMs: retry.maxMs },
    leaseMs: spanOf(named, 'lease') ?? leaseMs,
    deadlineMs: spanOf(named, 'deadline') ?? deadlineMs,
    maxAttempts: attempts,
    hasInbox: true,
    hasLeases: named.guard.lease !== undefined,
    lanesAreUsers: false,
  }
}

function spanOf({ guard }: NamedBroker, name: 'window' | 'lease' | 'deadline'): number | undefined {
  const text = guard[name]
  if (text === undefined) return undefined
  const ms = spanMs(text)
  if (ms === undefined) throw usage(`Expected \`${name}\` in --broker to be a span such as 30s.`)
  return ms
}

function unknownConsumer({ name }: NamedBroker, consumer: string): Finding {
  return {
    ...{ severity: 'error', about: name },
    finding: `No guard of the consumer ${consumer} has registered in these tables, so its queue was not checked.`,
    remedy: 'Correct `consumer` in the address, or start the consumer once.',
  }
}

function toFindings({ name }: NamedBroker, { problems, warnings }: Findings): readonly Finding[] {
  const of = (severity: Finding['severity'], texts: readonly string[]): readonly Finding[] =>
    texts.map((text) => ({ severity, about: name, ...splitRemedy(text) }))
  return [...of('error', problems), ...of('warning', warnings)]
}

/** The last sentence of a finding says what to do. */
export function splitRemedy(text: string): Pick<Finding, 'finding' | 'remedy'> {
  const sentences = text.split(/(?<=\.) (?=[A-Z`])/)
  const remedy = sentences.pop() ?? text
  return sentences.length === 0
    ? { finding: text, remedy: 'Fix it, then start the consumer.' }
    : { finding: sentences.join(' '), remedy }
}
