import type { Step, StepKind } from './playing.ts'

const steps: Record<string, Step> = {}
const step = (name: string, of: Step['of'], play: Step['play'], then: StepKind = 'own'): void => {
  steps[name] = { then, of, play }
}
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

// Statements that nobody awaits.
step('a write that is not awaited', 'sql', async ({ fact, write }) => {
  fact.parts.push('unawaited')
  write('unawaited').catch((error: unknown) => {
    fact.doomed ??= 'a statement that was not awaited failed'
    fact.unawaited = error
  })
})
step('a long statement that is not awaited', 'apart', async ({ fact, sql: run }) => {
  fact.blocked = true
  fact.doomed ??= 'a statement is running'
  run('select pg_catalog.pg_sleep(30)').catch(() => undefined)
})
step(
  'three writes at once',
  'sql',
  async ({ fact, write }) => {
    const parts = ['a', 'b', 'c']
    fact.parts.push(...parts)
    await Promise.all(parts.map(write))
  },
  'fine',
)
step('a write after the return', 'sql', async ({ fact, write }) => {
  const late = async (): Promise<void> => {
    while (!fact.isOver) await turn()
    fact.late.push('late')
    for (let n = 0; n < 3; n += 1) {
      await turn()
      await write('late').catch(() => undefined)
    }
  }
  void late()
})

// The connection.
step('ends its own backend', 'sql', async ({ fact, sql: run }) => {
  fact.isLost = true
  fact.doomed ??= 'the connection was ended'
  await run('reset session authorization; reset role')
  await run('select pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())')
})
step('its backend is ended', 'sql', async ({ endBackend, fact }) => {
  fact.isLost = true
  fact.doomed ??= 'the connection was ended'
  await endBackend()
})

// Time.
step('outlives its deadline', 'any', async ({ fact, passDeadline, write }) => {
  fact.hasHung = true
  fact.doomed ??= 'the deadline passed'
  fact.late.push('late')
  passDeadline()
  await write('late')
})
step('sleeps past its deadline', 'sql', async ({ fact, passDeadline, sql: run }) => {
  fact.hasHung = true
  fact.doomed ??= 'the deadline passed'
  const sleeping = run('select pg_catalog.pg_sleep(30)')
  passDeadline()
  await sleeping
})
step(
  'blocks the event loop',
  'any',
  async () => {
    const until = performance.now() + 3
    while (performance.now() < until);
  },
  'fine',
)
step('blocks the event loop past its lease', 'any', async ({ standStill }) => standStill(), 'fine')
step(
  'waits some turns',
  'any',
  async () => {
    for (let n = 0; n < 5; n += 1) await turn()
  },
  'fine',
)

// The event.
step(
  'changes its event',
  'any',
  async ({ event }) => {
    const changes = [
      () => event.body.fill(0),
      () => Object.assign(event.headers, { 'idempotency-key': 'other', changed: 'yes' }),
      () => Object.assign(event.source, { queue: 'other' }),
      () => Object.assign(event.payload as object, { number: -1 }),
      () =>
        Object.assign(event, { key: 'other', attempt: 99, tenant: 'other', idempotencyKey: 'x' }),
      () => Object.defineProperty(event, 'payload', { get: () => undefined }),
      () => Object.setPrototypeOf(event, null),
      () => Object.freeze(event),
    ]
    for (const change of changes) {
      try {
        change()
      } catch {
        // A frozen event is fine too.
      }
    }
  },
  'fine',
)

for (const which of ['itself', 'neighbour', 'other consumer', 'other pool'] as const) {
  step(`processes: ${which}`, 'any', ({ nest }) => nest(which), 'fine')
}

/** Statements that nobody awaits, lost connections, time, and the event itself. */
export const OTHER_STEPS: Readonly<Record<string, Step>> = steps
