import { migrate } from '@onceward/postgres'
import { migrationSql, quotedSchema } from '@onceward/postgres/operator'
import { type Command, Option } from 'commander'
import { readTables, type Tables } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { usage } from '../failure.ts'
import { createOutput, type Output } from '../output.ts'
import {
  type CommonOptions,
  command,
  type End,
  type Work,
  wholeNumber,
  withDatabase,
} from './command.ts'

interface MigrateFlags {
  readonly print?: boolean
  readonly after?: string
  readonly check?: boolean
  readonly leases?: 'logged' | 'unlogged'
}

export function migrateCommand(end: End): Command {
  const made = command({
    name: 'migrate',
    summary: 'Create or update the tables',
    details: [
      'Does nothing when the tables are current. Any number of processes may run it at once.',
      '',
      'Order of a rolling deployment: 1. run this command of the new release, while pods of the old release run;',
      '2. start the new pods; 3. stop the old ones. Each migration says from which release on the tables can be used.',
    ].join('\n'),
    rights: 'the owner of the tables; for --check any login that may read the table migrations.',
    examples: [
      'migrate',
      'migrate --check                        # for a pipeline: exit code 1 if something is pending',
      'migrate --print > V7__onceward.sql     # for Flyway and DBAs; needs no database',
      'migrate --print --after 1              # only what follows version 1',
    ],
  })
  return made
    .option('--print', 'print the SQL instead of running it; needs no database')
    .option('--after <version>', 'with --print: only the migrations after this version', '0')
    .option('--check', 'change nothing; exit code 1 if the tables are not current')
    .addOption(
      new Option(
        '--leases <kind>',
        'make the table of postgresLeases `logged` or `unlogged`',
      ).choices(['logged', 'unlogged']),
    )
    .action(async () => {
      const options = made.opts<MigrateFlags & CommonOptions>()
      const isPrint = options.print === true
      if (isPrint && options.check === true) throw usage('Give --print or --check, not both.')
      // Without these, the command would do something else than its user thinks.
      if (!isPrint && made.getOptionValueSource('after') === 'cli') {
        throw usage('--after is for --print. Without --print all pending migrations are applied.')
      }
      if (options.leases !== undefined && (isPrint || options.check === true)) {
        throw usage('--leases changes the table: give it without --print and --check.')
      }
      end(isPrint ? print(options) : await withDatabase<MigrateFlags>(made, run))
    })
}

function print({ after = '0', json, schema }: MigrateFlags & CommonOptions): ExitCode {
  const migrations = migrationSql(schema, wholeNumber('--after', after))
  createOutput(json === true).answer(migrations, () =>
    migrations
      .map(({ name, sql }) => `-- onceward ${name}\nbegin;\n\n${sql}\ncommit;`)
      .join('\n\n'),
  )
  return EXIT.ok
}

async function run({ database, output, options }: Work<MigrateFlags>): Promise<ExitCode> {
  if (options.check === true) {
    return check(output, await database.read((query) => readTables(query, database)))
  }
  const { leases } = options
  const migrated = await migrate(database.pool, { schema: database.schema, leases })
  output.answer(migrated, () =>
    migrated.applied.length === 0
      ? `The tables in ${quotedSchema(database.schema)} are current (version ${migrated.version}).`
      : `Applied ${migrated.applied.join(', ')}: the tables have version ${migrated.version}.`,
  )
  return EXIT.ok
}

function check(output: Output, tables: Tables): ExitCode {
  output.answer(tables, () => {
    switch (tables.kind) {
      case 'missing':
        return 'There are no tables: `npx onceward migrate` would create them.'
      case 'older':
        return `The tables have version ${tables.version}: \`npx onceward migrate\` would apply ${tables.pending.join(', ')}.`
      case 'current':
        return `The tables are current (version ${tables.version}).`
      case 'newer':
        return `The tables have version ${tables.version} of a newer release. This release can use them.`
      case 'too-new':
        return `The tables have version ${tables.version} of a newer release, which this one cannot use: update \`onceward\`.`
      default:
        return tables satisfies never
    }
  })
  return tables.kind === 'current' || tables.kind === 'newer' ? EXIT.ok : EXIT.no
}
