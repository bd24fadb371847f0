import { database, proxy, type TcpProxy, turnOf } from '@onceward/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CASES } from './fixtures/orms/cases.ts'
import { ORMS } from './fixtures/orms/index.ts'
import type { OrmTestbed } from './fixtures/orms/runs.ts'
import { CASE_NAMES, ORM_TABLE } from './fixtures/orms/table.ts'
import { migrate } from './operators/migrate.ts'

const TABLES = `create table charges (order_id text, cents int);
create table approvals (id uuid references parents deferrable initially deferred)`

let url: string
let through: string
let pool: pg.Pool
let link: TcpProxy

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 4 })
  await migrate(pool)
  await pool.query(`create table parents (id uuid primary key); ${TABLES}`)
  const { hostname, port } = new URL(url)
  link = await proxy({ host: hostname, port: Number(port) })
  through = Object.assign(new URL(url), { host: `${link.host}:${link.port}` }).href
})
afterAll(async () => {
  await pool.end()
  await link.stop()
})

it('the table of the documents has the cases that are played, for the ORMs that play them', () => {
  expect(CASES.map(({ name }) => name)).toEqual(CASE_NAMES)
  expect(ORMS.map(({ name }) => name)).toEqual(Object.keys(ORM_TABLE))
})

for (const [index, { connect, name }] of ORMS.entries()) {
  describe(
    `handlers in the transaction of ${name}`,
    turnOf(index, { of: ORMS.length, count: 2 }),
    () => {
      let testbed: OrmTestbed
      beforeAll(async () => {
        const [orm, single] = await Promise.all([connect(through, 6), connect(through, 1)])
        testbed = { orm, single, pool, link }
      })
      afterAll(() => Promise.all([testbed.orm.close(), testbed.single.close()]))

      const played = CASES.filter((each) => ORM_TABLE[name]?.differs?.[each.name] === undefined)
      for (const { isSlow, name: title, run } of played) {
        it(title, isSlow === true ? { tags: ['nightly'] } : {}, () => run(testbed))
      }
    },
  )
}
