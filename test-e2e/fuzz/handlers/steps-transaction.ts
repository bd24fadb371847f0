import type { PoolClient } from 'pg'
import Cursor from 'pg-cursor'
import type { Step, StepKind } from './playing.ts'

const steps: Record<string, Step> = {}
const sql = (then: StepKind, ...texts: readonly string[]): void => {
  const play: Step['play'] = async (playing) => {
    for (const text of texts) await playing.sql(text)
  }
  steps[texts.join('; ')] = { then, of: 'sql', play }
}
const step = (name: string, of: Step['of'], play: Step['play'], then: StepKind = 'own'): void => {
  steps[name] = { then, of, play }
}

// Savepoints.
step(
  'a savepoint that is released',
  'sql',
  async ({ sql: run, write, fact }) => {
    await run('savepoint onceward')
    await write('released')
    await run('release savepoint onceward')
    fact.parts.push('released')
  },
  'fine',
)
step(
  'a savepoint that is rolled back to',
  'sql',
  async ({ sql: run, write }) => {
    await run('savepoint "commit"')
    await write('rolled back')
    await run('rollback work to savepoint "commit"')
  },
  'fine',
)
step(
  'a savepoint that is left open',
  'sql',
  async ({ sql: run, write, fact }) => {
    await run('savepoint a')
    await run('savepoint a')
    await write('open')
    fact.parts.push('open')
  },
  'fine',
)
step(
  'a failure inside of a savepoint',
  'sql',
  async ({ sql: run }) => {
    await run('savepoint a')
    await run('select 1/0').catch(() => undefined)
    await run('rollback to a')
  },
  'fine',
)

for (const begin of ['begin', 'start transaction']) {
  step(
    `${begin} and commit, which are a savepoint`,
    'pg',
    async ({ sql: run, write, fact }) => {
      await run(begin)
      await write('nested')
      await run('commit')
      fact.parts.push('nested')
    },
    'fine',
  )
}

// Transaction control.
const CONTROL = [
  ...['commit', 'end', 'rollback', 'abort', 'commit and chain'],
  ...["prepare transaction 'zoo'", "rollback prepared 'zoo'", '/* ; */ -- x\n commit work'],
  ...['select 1; commit', 'savepoint a; rollback', "select ';'; end", 'COMMIT;;'],
]
for (const text of CONTROL) sql('refused', text)
sql('aborts', 'do $$ begin commit; end $$')
sql('aborts', 'call zoo.commits()')
step('a commit that is not seen', 'apart', async ({ slySql, fact }) => {
  fact.blocked = true
  await slySql('select 1', 'commit')
  if (fact.doomed === undefined) fact.endedItself = true
})
for (const method of ['release', 'end', 'connect'] as const) {
  step(
    `${method}() of the client`,
    'pg',
    async ({ context }) => {
      await (context.tx as PoolClient)[method]()
    },
    'refused',
  )
}

// Cursors and callbacks.
step(
  'a cursor that is closed',
  'pg',
  async ({ context }) => {
    const cursor = (context.tx as PoolClient).query(
      new Cursor('select pg_catalog.generate_series(1, 1000)'),
    )
    await cursor.read(10)
    await cursor.close()
  },
  'fine',
)
step('a cursor that is left open', 'pg apart', async ({ context, fact }) => {
  fact.blocked = true
  fact.doomed ??= 'a cursor is open'
  const cursor = (context.tx as PoolClient).query(
    new Cursor('select pg_catalog.generate_series(1, 1000)'),
  )
  await cursor.read(10)
})
step(
  'a cursor over a commit',
  'pg',
  async ({ context }) => {
    await (context.tx as PoolClient).query(new Cursor('commit')).read(1)
  },
  'refused',
)
step(
  'a callback',
  'pg',
  ({ context }) =>
    new Promise((resolve, reject) => {
      const tx = context.tx as PoolClient
      tx.query('select 1', (error, result) => (error ? reject(error) : resolve(result)))
    }),
  'fine',
)

/** What handlers do to their transaction and their client. */
export const TRANSACTION_STEPS: Readonly<Record<string, Step>> = steps
