import { expect, test } from 'vitest'
import type { OutboxStatus } from './outbox.ts'
import { type ServerFacts, serverFindings } from './server-findings.ts'
import type { ConsumerStatus, Status, TableStatus } from './status.ts'
import { type Horizons, tableFindings } from './table-findings.ts'

const HOUR = 3_600_000
const NOW = 1_800_000_000_000

const SERVER: ServerFacts = {
  ...{ versionNum: 180_001, version: '18.1', encoding: 'UTF8', isStandby: false, nowMs: NOW },
  ...{ fsync: 'on', fullPageWrites: 'on', autovacuum: 'on', synchronousStandbys: '' },
  ...{ idleInTransactionMs: 0, transactionMs: 0, connections: 10, maxConnections: 100 },
  ...{ oldestTransactionMs: 0, standbys: 0, lagBytes: null, lagMs: null },
}

test.each<readonly [Partial<ServerFacts>, string, RegExp]>([
  [{ versionNum: 130_010, version: '13.10' }, 'error', /PostgreSQL 13\.10/],
  [{ encoding: 'LATIN1' }, 'error', /encoding LATIN1/],
  [{ isStandby: true }, 'error', /standby/],
  [{ fsync: 'off' }, 'error', /fsync/],
  [{ fullPageWrites: 'off' }, 'warning', /full_page_writes/],
  [{ autovacuum: 'off' }, 'warning', /autovacuum/],
  [{ nowMs: NOW - 40_000 }, 'warning', /differ by 40 s/],
  [{ nowMs: NOW + HOUR }, 'warning', /differ by 1 h/],
  [{ nowMs: NOW + 2 * HOUR }, 'error', /differ by 2 h/],
  [{ idleInTransactionMs: 5_000 }, 'warning', /idle_in_transaction_session_timeout is 5 s/],
  [{ transactionMs: 5_000 }, 'warning', /transaction_timeout is 5 s/],
  [{ connections: 90 }, 'warning', /90 of 100 connections/],
  [{ oldestTransactionMs: HOUR }, 'warning', /idle for 1 h/],
  [{ standbys: 2 }, 'warning', /Standbys \(2\) copy asynchronously.*grant pg_monitor/],
  [{ standbys: 1, lagBytes: 2_048, lagMs: 1_500 }, 'warning', /up to 2\.0 KiB and 1 s behind/],
  [{ standbys: 1, lagBytes: 2_048 }, 'warning', /up to 2\.0 KiB behind\.$/],
])('%j is one %s', (facts, severity, text) => {
  const found = serverFindings({ ...SERVER, ...facts }, NOW)
  expect(found).toMatchObject([
    { severity, about: 'postgres', finding: expect.stringMatching(text) },
  ])
  expect(found[0]?.remedy).toMatch(/\.$/)
})

const CONSUMER: ConsumerStatus = {
  ...{
    id: 1,
    name: 'billing',
    dedupWindowMs: 15 * 24 * HOUR,
    seenAtMs: NOW,
    hasPlace: false,
    paused: null,
  },
  ...{ inHand: 0, oldestInHandMs: null, waiting: 0, parked: 0, nextTryMs: null },
  ...{ oldestWaitingMs: null, overdueMs: 0, doneMinute: 0, doneHour: 0 },
  ...{ workers: [], noWorkerSinceMs: null },
  ...{ unpublished: 0, oldestUnpublishedMs: null, unpublishedLate: 0, failedHour: 0, dead: [] },
}
const TABLE: TableStatus = {
  ...{ name: 'processed_events', rows: 10, bytes: 8_192, inserted: 0, updated: 0, deleted: 0 },
  ...{ deadRows: 0, vacuumedAtMs: null },
}
const NONE: Horizons = new Map()

function found(over: Partial<Status>, horizons = NONE, schema?: string) {
  const status: Status = {
    ...{ nowMs: NOW, version: 2, sweptAtMs: NOW, leases: null, ratesAreWhole: true },
    ...{ consumers: [CONSUMER], tables: [TABLE], outbox: null, ...over },
  }
  return tableFindings(status, horizons, schema)
}

const DEAD = [{ consumer: 'billing', reason: 'fatal', count: 2, oldestMs: NOW - HOUR }]

// Red before: the command listed the dead letters of the schema `onceward`.
test.each([
  [undefined, 'list --consumer billing`'],
  ['onceward', 'list --consumer billing`'],
  ['shop', 'list --consumer billing --schema shop`'],
  ["the shop's", "list --consumer billing --schema 'the shop'\\''s'`"],
])('the command for dead letters of the schema %j is `dead-letters %s', (schema, command) => {
  const [finding] = found({ consumers: [{ ...CONSUMER, dead: DEAD }] }, NONE, schema)
  expect(finding?.remedy).toContain(`npx onceward dead-letters ${command}`)
})

test.each<readonly [Partial<ConsumerStatus>, RegExp]>([
  [
    { waiting: 3, seenAtMs: NOW - 5 * HOUR },
    /^No worker of billing since \S+Z \(5 h\)\. 3 events wait\.$/,
  ],
  [{ noWorkerSinceMs: NOW - HOUR }, /^No worker of billing since \S+Z \(1 h\)\.$/],
  [
    { noWorkerSinceMs: NOW - 20 * 24 * HOUR, parked: 1, overdueMs: HOUR },
    /^No worker of billing since \S+Z \(20 d\)\. 1 event waits\.$/,
  ],
  [{ waiting: 3, parked: 2, inHand: 1, seenAtMs: NOW - 5 * HOUR }, /\(5 h\)\. 6 events wait\.$/],
  [{ overdueMs: 600_000, parked: 1 }, /due for 10 min/],
  [{ unpublishedLate: 1 }, /1 dead letter of billing could not be published/],
  [{ dead: DEAD }, /2 dead letters of billing wait for an operator, the oldest for 1 h/],
  [
    { dead: DEAD.map((each) => ({ ...each, count: 1 })).slice(0, 1) },
    /1 dead letter of billing waits for an operator/,
  ],
  [
    {
      dead: [...DEAD, { consumer: 'billing', reason: 'late', count: 3, oldestMs: NOW - 5 * HOUR }],
    },
    /5 dead letters of billing wait for an operator, the oldest for 5 h/,
  ],
])('a consumer with %j is one warning', (over, text) => {
  const findings = found({ consumers: [{ ...CONSUMER, ...over }] })
  expect(findings).toMatchObject([{ severity: 'warning', finding: expect.stringMatching(text) }])
})

test.each<readonly [Partial<ConsumerStatus>, object]>([
  [{ dead: DEAD }, { consumer: 'billing', see: 'dead-letters' }],
  [
    { noWorkerSinceMs: NOW - HOUR, waiting: 1 },
    { consumer: 'billing', see: 'waiting' },
  ],
  [{ noWorkerSinceMs: NOW - HOUR }, { consumer: 'billing' }],
])('the finding of a consumer with %j says what it names', (over, named) => {
  const [finding] = found({ consumers: [{ ...CONSUMER, ...over }] })
  const { consumer, see } = finding ?? {}
  expect({ consumer, ...(see && { see }) }).toEqual(named)
})

test('a queue that redelivers longer than the window is an error, for its consumer alone', () => {
  const days = (count: number): number => count * 24 * HOUR
  const long = { severity: 'error', finding: expect.stringContaining('30 d') }
  expect(found({}, new Map([['billing', days(30)]]))).toMatchObject([long])
  expect(found({}, new Map([['', days(30)]]))).toMatchObject([long])
  expect(
    found(
      {},
      new Map([
        ['', days(30)],
        ['billing', days(4)],
      ]),
    ),
  ).toEqual([])
})

const OUTBOX: OutboxStatus = {
  ...{ destination: 'pay', waiting: 1, delayed: 9, refused: 0, dead: 0, oldestWaitingMs: NOW },
  isServed: true,
}

test.each<readonly [Partial<OutboxStatus>, RegExp]>([
  [{ oldestWaitingMs: NOW - HOUR }, /^1 message of the outbox to pay waits, the oldest for 1 h\.$/],
  [
    { oldestWaitingMs: NOW - HOUR, refused: 2 },
    /^3 messages of the outbox to pay wait, the oldest for 1 h\.$/,
  ],
  [
    { isServed: false, oldestWaitingMs: NOW - 180_000 },
    /^1 message of the outbox to pay waits, and no relay that runs has this destination\.$/,
  ],
  [{ dead: 1 }, /^1 message of the outbox to pay is dead\.$/],
])('an outbox with %j is one warning', (over, text) => {
  expect(found({ outbox: [OUTBOX, { ...OUTBOX, isServed: false }] })).toEqual([])
  const findings = found({ outbox: [{ ...OUTBOX, ...over }] })
  expect(findings).toMatchObject([{ severity: 'warning', finding: expect.stringMatching(text) }])
})

// Red before: a misspelt name was compared with nothing, and nothing was found.
test('a horizon of a consumer that has not registered is an error', () => {
  expect(found({}, new Map([['biling', HOUR]]))).toMatchObject([
    { severity: 'error', finding: expect.stringContaining('the consumer biling has registered') },
  ])
})

test('a sweep that stands still is found, unless no guard runs', () => {
  const twoDaysAgo = { sweptAtMs: NOW - 48 * HOUR }
  const stands = { severity: 'warning', about: 'tables' }
  const finding = expect.stringContaining('swept for 2 d')
  expect(found(twoDaysAgo)).toMatchObject([{ ...stands, finding }])
  const running = { ...CONSUMER, seenAtMs: NOW - HOUR }
  const idle = { ...CONSUMER, seenAtMs: NOW - 2 * HOUR }
  expect(found({ ...twoDaysAgo, consumers: [idle] })).toEqual([])
  expect(found({ ...twoDaysAgo, consumers: [idle, running] })).toMatchObject([stands])
  expect(found({ sweptAtMs: NOW + 2 * HOUR })).toMatchObject([{ severity: 'error' }])
})

test('dead rows that no vacuum took are found', () => {
  const tables = [{ ...TABLE, rows: 150_000, deadRows: 200_000 }]
  const warning = { severity: 'warning', about: 'tables' }
  const table = 'The table processed_events has 200,000 dead rows beside 150,000 rows'
  expect(found({ tables })).toMatchObject([
    { ...warning, finding: `${table}, last vacuumed never.` },
  ])
  expect(found({ tables: [{ ...TABLE, ...tables[0], vacuumedAtMs: NOW }] })).toMatchObject([
    { ...warning, finding: `${table}, last vacuumed 2027-01-15T08:00:00.000Z.` },
  ])
  const few = [
    { rows: 10, deadRows: 100_000 },
    { rows: 400_000, deadRows: 200_000 },
  ]
  expect(found({ tables: few.map((each) => ({ ...TABLE, ...each })) })).toEqual([])
  // Red before: without its schema, PostgreSQL does not find the table.
  const remedyIn = (schema?: string) => found({ tables }, NONE, schema)[0]?.remedy
  expect(remedyIn()).toContain('`vacuum "onceward".processed_events`')
  expect(remedyIn('a b')).toContain('`vacuum "a b".processed_events`')
})
