import { randomUUID } from 'node:crypto'
import { ConfigurationError } from '@onceward/core'
import type { Claim, ClaimResult, EventId, Fingerprint, OwnerToken } from '@onceward/core/ports'
import { toStartError } from './errors.ts'
import type { Namespace } from './keys.ts'
import type { RunScript } from './scripts.ts'
import { type Transitions, transitionsIn } from './transitions.ts'

/** A setting of the server that works, but not well. */
export interface Finding {
  readonly finding: string
  /** The command that fixes it. */
  readonly remedy: string
}

export interface SelfTest {
  readonly run: RunScript
  readonly namespace: Namespace
  /** No inbox: only Redis remembers processed events. */
  readonly isTruth: boolean
}

const LEASE_MS = 5
const TRIES = 200
const LEAST_VERSION = '6.2'

/** A flush or failover in the middle of the test fails one round. A server or client that does not work fails all. */
const ROUNDS = 3

/**
 * Claims a test event twice, lets the lease expire, claims again, and reads the server's settings.
 *
 * @throws {@link ConfigurationError} when claims do not exclude each other (a client or proxy changes keys or
 * answers), when the server is too old, and when the user or the server lacks a command.
 */
export async function selfTest(test: SelfTest): Promise<readonly Finding[]> {
  for (let left = ROUNDS - 1; ; left -= 1) {
    try {
      return await runTest(test)
    } catch (error) {
      if (left === 0 || !(error instanceof ConfigurationError)) throw toStartError(error)
    }
  }
}

async function runTest(test: SelfTest): Promise<readonly Finding[]> {
  const transitions = transitionsIn(test.run, test.namespace)
  const id = randomUUID() as EventId
  try {
    await demandOneWinner(transitions, id)
    const { ttlMs, info } = await examine(test, id)
    demand(ttlMs > LEASE_MS, `the key of a claim outlives its lease and expires (PTTL ${ttlMs})`)
    demandVersion(info.get('redis_version'))
    await demandTakeover(transitions, id)
    await transitions.forget([id])
    return findings(info, test.isTruth)
  } catch (error) {
    await transitions.forget([id]).catch(() => undefined)
    throw error
  }
}

const claimOf = (id: EventId): Claim => ({
  id,
  fingerprint: 1n as Fingerprint,
  ownerToken: randomUUID() as OwnerToken,
  leaseMs: LEASE_MS,
})

async function demandOneWinner(transitions: Transitions, id: EventId): Promise<void> {
  const long = 60_000
  const claims = [0, 1].map(() => ({ ...claimOf(id), leaseMs: long }))
  const calls = await Promise.all(claims.map((claim) => transitions.claim([claim])))
  const kinds = calls.flat().map(({ kind }) => kind)
  const isOne = kinds.toSorted().join() === 'acquired,in-progress'
  demand(isOne, `exactly one of two claims wins (they answered ${kinds.join(' and ')})`)
  const winner = claims[kinds.indexOf('acquired')] as Claim
  const renewed = await transitions.renew([winner], LEASE_MS)
  demand(renewed[0] === 'held', 'the winner still holds its claim')
}

async function demandTakeover(transitions: Transitions, id: EventId): Promise<void> {
  let answer: ClaimResult | undefined
  for (let left = TRIES; left > 0; left -= 1) {
    ;[answer] = await transitions.claim([claimOf(id)])
    if (answer?.kind !== 'in-progress') break
  }
  const isTakeover = answer?.kind === 'acquired' && answer.by === 'takeover' && answer.attempt === 2
  demand(
    isTakeover,
    `a claim after the lease expired is a takeover (it answered ${JSON.stringify(answer)})`,
  )
}

interface Examined {
  readonly ttlMs: number
  readonly info: ReadonlyMap<string, string>
}

async function examine({ run, namespace }: SelfTest, id: EventId): Promise<Examined> {
  const [answer] = await run({ script: 'examine', namespace, entries: [{ id, args: [] }] })
  const [ttl, text] = Array.isArray(answer) ? answer : []
  const lines = String(text)
    .split(/\r?\n/)
    .map((line): [string, string] => {
      const [name = '', value = ''] = line.split(':')
      return [name, value]
    })
  return { ttlMs: Number(ttl), info: new Map(lines) }
}

function demand(isSo: boolean, what: string): void {
  if (isSo) return
  throw new ConfigurationError(
    `Redis fails the self-test of redisLeases(): expected that ${what}. Check for a client, proxy or server that changes keys, scripts or answers.`,
  )
}

/** @throws {@link ConfigurationError} */
export function demandVersion(version: string | undefined): void {
  if (version === undefined) return
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > 6 || (major === 6 && minor >= 2)) return
  throw new ConfigurationError(
    `Expected Redis ${LEAST_VERSION} or newer, got ${version}: update the server.`,
  )
}

/** `redisInbox` has effects in this Redis, which the last second of writes would take with it. */
export function durabilityFindings(
  info: ReadonlyMap<string, string>,
  fsync: string | undefined,
): readonly Finding[] {
  if (info.get('aof_enabled') !== '1' || fsync === 'always') return []
  if (fsync === undefined) {
    return [
      {
        finding:
          'Effects are in this Redis, and whether it loses its last second of writes could not be read with CONFIG GET appendfsync',
        remedy: 'ACL SETUSER <user> +config|get, or make sure of `appendfsync always`',
      },
    ]
  }
  const lost =
    fsync === 'everysec'
      ? 'its last second of writes'
      : 'all writes that the system has not written to the disk'
  return [
    {
      finding: `Effects are in this Redis, and if its machine stops it loses ${lost}, with their events (appendfsync ${fsync})`,
      remedy: 'CONFIG SET appendfsync always',
    },
  ]
}

/** Settings of the server that do not fit. */
export function findings(info: ReadonlyMap<string, string>, isTruth: boolean): readonly Finding[] {
  const policy = info.get('maxmemory_policy')
  const found: Finding[] = []
  if (isTruth && policy === undefined) {
    found.push({
      finding:
        'Only Redis remembers processed events, and whether it evicts or loses them could not be read with INFO',
      remedy: 'ACL SETUSER <user> +info',
    })
  }
  const evicts = policy !== undefined && policy !== 'noeviction'
  if (evicts && isTruth) {
    found.push({
      finding: `Only Redis remembers processed events, and it may evict them (${policy})`,
      remedy: 'CONFIG SET maxmemory-policy noeviction',
    })
  }
  if (evicts && !isTruth && !policy.startsWith('volatile')) {
    found.push({
      finding: `Redis may evict live claims before other keys (${policy})`,
      remedy: 'CONFIG SET maxmemory-policy volatile-ttl',
    })
  }
  if (isTruth && info.get('aof_enabled') === '0') {
    found.push({
      finding: 'Only Redis remembers processed events, and it loses them at a restart',
      remedy: 'CONFIG SET appendonly yes',
    })
  }
  return found
}
