import { afterEach, expect, test, vi } from 'vitest'
import { redisFindings } from './redis-findings.ts'

const POLICY = 'redis_version:7.2.0\r\nmaxmemory_policy:noeviction'

const WON = [['acquired', 'first', 1]]

/** What the scripts of the self-test answer, in the order in which they run. */
const selfTest = (info: string): readonly unknown[] => [
  ...[WON, [['in-progress', '1000']], [1], [[60_000, info]]],
  ...[[['acquired', 'takeover', 2]], [1]],
]

interface Told {
  readonly info?: Readonly<Record<string, unknown>>
  readonly policy?: string
  readonly isTruth?: boolean
  /** How long each PING takes. */
  readonly pingsMs?: readonly number[]
  readonly fails?: Error
  readonly lineEnd?: string
  /** False: every claim wins. */
  readonly isFit?: boolean
}

async function found({
  fails,
  info = {},
  isTruth = false,
  pingsMs = [],
  policy = POLICY,
  isFit = true,
  lineEnd = '\r\n',
}: Told) {
  const answers = [...selfTest(policy)]
  let [nowMs, ping] = [1_000, 0]
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  const lines = Object.entries(info).map(([name, value]) => `${name}:${String(value)}`)
  const client = {
    info: async () => ['# Server', ...lines, ''].join(lineEnd),
    ping: async () => {
      nowMs += pingsMs[ping] ?? pingsMs[0] ?? 1
      ping += 1
    },
    evalsha: async () => {
      if (fails !== undefined) throw fails
      return isFit ? answers.shift() : WON
    },
    script: async () => 'sha',
  }
  const findings = await redisFindings({ client } as never, { isTruth, namespace: undefined })
  return { findings, pings: ping }
}

afterEach(() => {
  vi.restoreAllMocks()
})

test.each<readonly [Told, string, RegExp]>([
  [{ info: { role: 'slave' } }, 'error', /is a replica/],
  [{ info: { role: 'slave', x: 1 }, lineEnd: '\n' }, 'error', /is a replica/],
  [
    { info: { used_memory: 1_900, maxmemory: 2_048 } },
    'warning',
    /^1\.9 KiB of 2\.0 KiB of memory/,
  ],
  [{ isTruth: true, info: { connected_slaves: 1 } }, 'warning', /a failover loses the newest/],
  [{ pingsMs: [20.5] }, 'warning', /A PING takes 20\.5 ms/],
])('%j is one %s', async (told, severity, text) => {
  const { findings } = await found(told)
  expect(findings).toMatchObject([
    { severity, about: 'redis', finding: expect.stringMatching(text) },
  ])
})

test('the time of a PING is the middle one of twenty, so that a few slow ones are no finding', async () => {
  const slow = (count: number) => Array.from({ length: 20 }, (_, at) => (at < count ? 100 : 3))
  expect(await found({ pingsMs: slow(9) })).toEqual({ findings: [], pings: 20 })
  expect((await found({ pingsMs: slow(11) })).findings).toHaveLength(1)
  // As numbers: as texts, 100 would come before 3.
  expect((await found({ pingsMs: slow(10) })).findings).toMatchObject([
    { finding: expect.stringContaining('100.0 ms') },
  ])
})

test('what the self-test finds is a warning with the command that mends it', async () => {
  const policy = 'redis_version:7.2.0\r\nmaxmemory_policy:allkeys-lru'
  const { findings } = await found({ policy, isTruth: true })
  expect(findings).toMatchObject([
    { severity: 'warning', about: 'redis', finding: expect.stringMatching(/lru.*\.$/) },
  ])
  expect(findings[0]?.remedy).toMatch(/^Run `.+`\.$/)
})

test('a server on which guards do not start is an error', async () => {
  const { findings } = await found({ isFit: false })
  expect(findings).toMatchObject([
    { severity: 'error', about: 'redis', finding: expect.stringContaining('fails the self-test') },
  ])
  expect(findings[0]?.remedy).toContain('6.2 or newer')
})

test('a server that cannot be asked is none, but a failure', async () => {
  await expect(found({ fails: new Error('Connection is closed.') })).rejects.toThrow(/closed/)
})
