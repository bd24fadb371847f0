import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { sendWith } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { silent } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import type { DeadMessage } from '../data/outbox.ts'
import type { Status } from '../data/status.ts'
import { answer, cli } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

/** Messages of each state: `state-destination-n`. */
async function filled({ pool }: Operated): Promise<void> {
  const message = (id: string, delayMs = 0) => ({
    ...{ id, to: id.split('-')[1] ?? '', key: `k-${id}`, payload: { id }, delayMs },
  })
  const client = await pool.connect()
  await client.query('begin')
  await sendWith(client, [
    ...['q-mails-1', 'q-mails-2', 'h-mails-1', 'w-mails-1', 'x-mails-1'].map((id) => message(id)),
    ...['x-pay-1', 'x-pay-2'].map((id) => message(id)),
    ...[message('d-mails-1', 3_600_000), message('d-mails-2', 3_600_000)],
  ])
  await client.query('commit')
  client.release()
  await pool.query(`
    update onceward.outbox_messages set state = left(message_id, 1)::"char",
      created_at = now() - interval '20 minutes' * (case when message_id = 'q-mails-1' then 2 else 1 end);
    update onceward.outbox_messages set attempt = 10, failed_at = now(), error = e'too large\\nat x' where state = 'x';
    update onceward.outbox_messages set due_at = now() - interval '1 minute' where message_id = 'd-mails-2'`)
}

const states = async ({ pool }: Operated): Promise<string> => {
  const { rows } = await pool.query(
    "select message_id || ' ' || state::text || ' ' || attempt as row from onceward.outbox_messages where message_id like 'x%' order by 1",
  )
  return rows.map(({ row }) => row).join(', ')
}

test('status and doctor show what waits in the outbox, what was refused and what is dead, by destination', async () => {
  await using at = await operated()
  expect((await answer<Status>(['status'], at)).outbox).toEqual([])
  expect((await cli(['status'], at)).stdout).not.toContain('OUTBOX')
  await filled(at)
  // Of two relays one runs, and the lease of the other one is over.
  await at.pool.query(`insert into onceward.outbox_leases (destination, bucket, relay, until) values
    ('mails', -1, gen_random_uuid(), now() + interval '1 hour'), ('pay', -2, gen_random_uuid(), now())`)
  const { nowMs, outbox } = await answer<Status>(['status'], at)
  expect(outbox).toEqual([
    {
      ...{ destination: 'mails', waiting: 4, delayed: 1, refused: 1, dead: 1 },
      ...{ oldestWaitingMs: expect.any(Number), isServed: true },
    },
    {
      ...{ destination: 'pay', waiting: 0, delayed: 0, refused: 0, dead: 2 },
      ...{ oldestWaitingMs: null, isServed: false },
    },
  ])
  const [mails] = outbox ?? []
  expect(Math.floor((nowMs - (mails?.oldestWaitingMs ?? 0)) / 60_000)).toBe(40)
  const { stdout } = await cli(['status'], at)
  expect(stdout).toMatch(
    /OUTBOX TO +WAITING .*\nmails +4 +1 +1 +1 +40 min.* ago +runs\npay +0 .* 2 +– +none/,
  )
  const doctor = (await cli(['doctor'], at)).stdout
  await at.pool.query('delete from onceward.outbox_leases')
  expect((await cli(['doctor'], at)).stdout).toContain(
    '5 messages of the outbox to mails wait, and no relay that runs has this destination.',
  )
  expect(doctor).toContain('5 messages of the outbox to mails wait, the oldest for 40 min')
  expect(doctor).toContain('2 messages of the outbox to pay are dead.')
})

test('dead messages are listed, and none but those that were meant are replayed or discarded', async () => {
  await using at = await operated()
  await filled(at)
  const listed = await answer<{ messages: readonly DeadMessage[] }>(['outbox', 'list'], at)
  expect(listed).toMatchObject({
    counts: [
      { destination: 'mails', count: 1 },
      { destination: 'pay', count: 2 },
    ],
  })
  expect(listed.messages.map(({ id }) => id).toSorted()).toEqual([
    ...['x-mails-1', 'x-pay-1', 'x-pay-2'],
  ])
  const { stdout } = await cli(['outbox', 'list', '--destination', 'pay', '--limit', '1'], at)
  expect(stdout).toMatch(/^ID .*\nx-pay-1 +pay +10 +\S+ +16 +k-x-pay-1 +too large\n/)
  expect(stdout).toContain('The oldest 1 of 2 dead messages:\n  pay  2\n')

  const before = await states(at)
  for (const args of [
    [],
    ['--all', '--destination', 'pay'],
    ['x-pay-1', '--limit', '1'],
    ['--all'],
  ])
    expect(await cli(['outbox', 'discard', ...args], at)).toMatchObject({ code: 2 })
  expect(await states(at)).toBe(before)

  expect(await cli(['outbox', 'replay', 'x-pay-1', 'q-mails-1'], at)).toMatchObject({
    code: 1,
    stdout:
      '1 message will be published again.\nq-mails-1 was left as it is: no dead message has this id.\n',
  })
  expect(await states(at)).toBe('x-mails-1 x 10, x-pay-1 q 0, x-pay-2 x 10')
  expect(await cli(['outbox', 'discard', '--destination', 'pay', '--yes'], at)).toMatchObject({
    code: 0,
    stdout: '1 message discarded.\n',
  })
  expect(await states(at)).toBe('x-mails-1 x 10, x-pay-1 q 0')
  expect(await answer(['outbox', 'replay', '--all', '--yes'], at)).toEqual({
    done: ['x-mails-1'],
    untouched: [],
  })
  expect((await cli(['outbox', 'list'], at)).stdout).toBe(
    'There are no dead messages that match.\n',
  )
})

interface Shown {
  readonly messages: readonly {
    readonly id: string
    readonly event: string | null
    readonly body: { readonly text: string }
  }[]
}

test('an event leads to the messages that it sent, and a message back to its event, with what operators did', async () => {
  await using at = await operated()
  const guard = createGuard(
    { consumer: 'shop', inbox: pgInbox(at.pool), logger: silent, eventKey: () => 'order-1' },
    (_event, { outbox }) => {
      outbox.send({ to: 'mails', key: 'k', payload: { to: 'ann' }, headers: { lang: 'en' } })
      outbox.send({ to: 'pay', payload: Buffer.from([0xff]) })
    },
  )
  await guard.process(toDelivery({}))
  await guard.close()
  const explained = async () => (await cli(['explain', 'order-1', '--consumer', 'shop'], at)).stdout
  const stored = await at.pool.query(
    'select message_id as id from onceward.outbox_messages order by position',
  )
  const [mail = '', pay = ''] = stored.rows.map(({ id }) => id)
  expect(await explained()).toContain(`it sent ${mail} to mails, which waits for a relay\n`)

  const { code, stdout } = await cli(['outbox', 'show', mail], at)
  expect(code).toBe(0)
  expect(stdout).toContain('sent by       shop\n')
  expect(stdout).toContain('headers       {"lang":"en"}\n')
  expect(stdout).toContain('"to": "ann"')
  const [, event = ''] = /explain --id (\S+)/.exec(stdout) ?? []
  expect((await cli(['explain', '--id', event], at)).stdout).toContain(`it sent ${pay} to pay`)
  const shown = await answer<Shown>(['outbox', 'show', pay], at)
  expect(shown.messages).toMatchObject([{ id: pay, event, body: { form: 'hex', base64: '/w==' } }])
  expect(await cli(['outbox', 'show', event], at)).toMatchObject({ code: 1 })

  await at.pool.query("update onceward.outbox_messages set state = 'x', failed_at = now()")
  await cli(['outbox', 'discard', pay, '--by', 'ann', '--why', 'a test'], at)
  await cli(['outbox', 'replay', mail], at)
  const told = await explained()
  expect(told).toMatch(`ann discarded it: the message ${pay} of its outbox\n    a test\n`)
  expect(told).toContain(` replayed it: the message ${mail} of its outbox\n`)
  const audit = await at.pool.query(
    "select count(*)::int as n from onceward.audit a join onceward.consumers c on c.id = a.consumer_id and c.name = 'shop'",
  )
  expect(audit.rows).toEqual([{ n: 2 }])
})
