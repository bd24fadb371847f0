import { execFile } from 'node:child_process'
import { appendFile, chown, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { retryTakenPort, serverDirectory } from '../run/native.ts'
import type { Server } from '../run/server.ts'
import { nativePostgres, type PostgresConnection, SETTINGS, type Settings } from './postgres.ts'
import { postgresBinaries } from './postgres-binaries.ts'

const run = promisify(execFile)

/**
 * A hot standby of a native server of the embedded version: it streams from the primary and answers reads.
 *
 * @param primary - Must run on this machine, because its files are copied.
 * @param settings - Of the standby; it does not have those with which the primary was started.
 */
export async function hotStandby(
  primary: Pick<Server<PostgresConnection>, 'connection'>,
  settings: Settings = {},
): Promise<Server<PostgresConnection>> {
  const binaries = await postgresBinaries()
  const work = await serverDirectory('standby', binaries.base)
  try {
    const template = await baseBackup(primary.connection, work)
    if (binaries.user !== undefined) {
      const { uid, gid } = binaries.user
      for (const name of ['backup_label', 'standby.signal']) {
        await chown(join(template, name), uid, gid)
      }
    }
    return await retryTakenPort(() =>
      nativePostgres({ ...SETTINGS, ...settings }, { ...binaries, template }),
    )
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** The embedded binaries come without `pg_basebackup`. */
async function baseBackup(
  { url, host, port, user }: PostgresConnection,
  work: string,
): Promise<string> {
  const data = join(work, 'data')
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query('show data_directory')
    await client.query("select pg_backup_start('standby', true)")
    await run('cp', ['-Rp', String(rows[0].data_directory), data])
    const { rows: stopped } = await client.query('select labelfile from pg_backup_stop(false)')
    await writeFile(join(data, 'backup_label'), stopped[0].labelfile)
  } finally {
    await client.end()
  }
  await rm(join(data, 'postmaster.pid'), { force: true })
  await writeFile(join(data, 'standby.signal'), '')
  const primary = `host=${host} port=${port} user=${user}`
  await appendFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${primary}'\n`)
  return data
}
