import { type AttemptStatements, attemptStatements } from './attempts.ts'
import { type BodyStatements, bodyStatements } from './bodies.ts'
import { type DeadLetterStatements, deadLetterStatements } from './dead-letters.ts'
import { type FigureStatements, figureStatements } from './figures.ts'
import { type LeaseStatements, leaseStatements } from './leases.ts'
import { type OffsetStatements, offsetStatements } from './offsets.ts'
import { type OperatorStatements, operatorStatements } from './operator.ts'
import { type ParkingStatements, parkingStatements } from './parking.ts'
import { type PauseStatements, pauseStatements } from './pauses.ts'
import { type RefusedStatements, refusedStatements } from './refused.ts'
import { type RegistrationStatements, registrationStatements } from './registration.ts'
import { type RemovalStatements, removalStatements } from './removal.ts'
import { type RequeueStatements, requeueStatements } from './requeue.ts'
import { type RetentionStatements, retentionStatements } from './retention.ts'
import { DEFAULT_SCHEMA, quotedSchema } from './schema-name.ts'
import { type SuspectMessageStatements, suspectMessageStatements } from './suspect-messages.ts'
import { type VerdictStatements, verdictStatements } from './verdicts.ts'
import { type WorkerStatements, workerStatements } from './workers.ts'

/**
 * All short statements of the inbox, as constants of one schema.
 *
 * House rules: rows travel as one JSON text in `$1` and come back as one JSON text named `answer`, so that no type
 * parser, array encoding or name mapping of the user's client touches them. Locks are taken on `processed_events`
 * first, then on `failed_events`, in the order of the event ids, or two of these statements deadlock. What a
 * statement reads of `failed_events` counts only once it holds a lock there or on the row of `processed_events`:
 * READ COMMITTED re-checks a changed row only in the table it locks.
 */
export interface Statements
  extends RegistrationStatements,
    AttemptStatements,
    VerdictStatements,
    ParkingStatements,
    PauseStatements,
    BodyStatements,
    DeadLetterStatements,
    RefusedStatements,
    SuspectMessageStatements,
    FigureStatements,
    RetentionStatements,
    LeaseStatements,
    OffsetStatements,
    OperatorStatements,
    RemovalStatements,
    RequeueStatements,
    WorkerStatements {
  /** The schema's name, quoted. */
  readonly schema: string
}

export function createStatements(schema: string = DEFAULT_SCHEMA): Statements {
  const quoted = quotedSchema(schema)
  return {
    schema: quoted,
    ...registrationStatements(quoted),
    ...attemptStatements(quoted),
    ...verdictStatements(quoted),
    ...parkingStatements(quoted),
    ...pauseStatements(quoted),
    ...bodyStatements(quoted),
    ...deadLetterStatements(quoted),
    ...refusedStatements(quoted),
    ...suspectMessageStatements(quoted),
    ...figureStatements(quoted),
    ...retentionStatements(quoted),
    ...leaseStatements(quoted),
    ...offsetStatements(quoted),
    ...operatorStatements(quoted),
    ...removalStatements(quoted),
    ...requeueStatements(quoted),
    ...workerStatements(quoted),
  }
}
