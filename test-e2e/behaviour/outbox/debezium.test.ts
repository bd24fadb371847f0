// @module-tag nightly

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OutboxMessage } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { sendWith } from '@onceward/postgres/outbox'
import { postgres, skipped } from '@onceward/testing'
import pg from 'pg'
import { expect, test } from 'vitest'

const DOCUMENT = join(import.meta.dirname, '../../../docs/outbox.md')

/** The blocks of one language in docs/outbox.md. */
async function blocks(language: string): Promise<readonly string[]> {
  const text = await readFile(DOCUMENT, 'utf8')
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, block = '']) => block,
  )
}

type Row = Readonly<Record<string, Buffer | null>>

/**
 * The rows that `pgoutput` tells of, as Debezium reads them; any other change than an insert fails.
 *
 * @see https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
 */
function insertedRows(messages: readonly Buffer[]): readonly Row[] {
  let columns: string[] = []
  const rows: Row[] = []
  for (const message of messages) {
    const kind = message.toString('latin1', 0, 1)
    let at = 5
    const text = (): string => {
      const end = message.indexOf(0, at)
      const found = message.toString('utf8', at, end)
      at = end + 1
      return found
    }
    const short = (): number => {
      at += 2
      return message.readInt16BE(at - 2)
    }
    if (kind === 'R') {
      expect(`${text()}.${text()}`).toBe('onceward.outbox_messages')
      at += 1
      columns = Array.from({ length: short() }, () => {
        at += 1
        const name = text()
        at += 8
        return name
      })
    } else if (kind === 'I') {
      at += 1
      const values = Array.from({ length: short() }, () => {
        const form = message.toString('latin1', at, at + 1)
        at += 1
        if (form === 'n') return null
        expect(form).toBe('t')
        const length = message.readInt32BE(at)
        at += 4 + length
        return message.subarray(at - length, at)
      })
      rows.push(Object.fromEntries(columns.map((name, index) => [name, values[index] ?? null])))
    } else expect(['B', 'C']).toContain(kind)
  }
  return rows
}

const unhex = (value: Buffer | null | undefined): string | undefined =>
  value
    ?.toString()
    .replace(/^\\x/, '')
    .replaceAll(/../g, (hex) => String.fromCharCode(Number.parseInt(hex, 16)))

test.skipIf(skipped('postgres'))(
  'the columns that docs/outbox.md gives Debezium have the messages, in the order of their commits, and only once',
  async () => {
    await using server = await postgres({ native: true, settings: { wal_level: 'logical' } })
    const pool = new pg.Pool({ connectionString: await server.createDatabase() })
    try {
      await migrate(pool)
      const [publication = '', cleaning = ''] = await blocks('sql')
      await pool.query(publication)
      await pool.query("select pg_create_logical_replication_slot('debezium', 'pgoutput')")
      const [first, second] = [await pool.connect(), await pool.connect()]
      const big = Buffer.alloc(100_000, 'x')
      const send = async (client: pg.PoolClient, message: OutboxMessage): Promise<void> => {
        await client.query('begin')
        await sendWith(client, [message])
      }
      await send(first, { to: 'payments', key: 'a', id: 'm-1', payload: { cents: 1 } })
      await send(second, { to: 'mails', id: 'm-2', payload: big })
      await second.query('commit')
      await first.query('commit')
      first.release()
      second.release()
      await pool.query("update onceward.outbox_messages set state = 'x' where message_id = 'm-1'")
      await pool.query(
        "update onceward.outbox_messages set created_at = now() - interval '10 days' where message_id = 'm-2'",
      )
      await pool.query(cleaning)
      const left = await pool.query('select message_id as id from onceward.outbox_messages')
      expect(left.rows).toEqual([{ id: 'm-1' }])

      const [properties = ''] = await blocks('properties')
      const config = new Map(
        properties.split('\n').map((line) => {
          const [name = '', ...value] = line.split('=')
          return [name, value.join('=')]
        }),
      )
      const option = (name: string): string => config.get(`transforms.outbox.${name}`) ?? ''
      const { rows } = await pool.query(
        "select data from pg_logical_slot_get_binary_changes('debezium', null, null, 'proto_version', '1', 'publication_names', $1)",
        [config.get('publication.name')],
      )
      const published = insertedRows(rows.map(({ data }) => data)).map((row) => ({
        id: row[option('table.field.event.id')]?.toString(),
        topic: row[option('route.by.field')]?.toString(),
        key: unhex(row[option('table.field.event.key')]),
        payload: unhex(row[option('table.field.event.payload')]),
      }))
      expect(published).toEqual([
        { id: 'm-2', topic: 'mails', key: undefined, payload: big.toString() },
        { id: 'm-1', topic: 'payments', key: 'a', payload: '{"cents":1}' },
      ])
      const [header] = option('table.fields.additional.placement').split(':')
      expect(header).toBe(option('table.field.event.id'))
    } finally {
      await pool.end()
    }
  },
)
