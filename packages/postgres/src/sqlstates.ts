// https://www.postgresql.org/docs/current/errcodes-appendix.html

/** `lock_not_available`: another transaction held the row for longer than `lock_timeout`. */
export const LOCK_NOT_AVAILABLE = '55P03'
/** `insufficient_privilege`: the role of the connection may not do it. */
export const FORBIDDEN = '42501'
export const QUERY_CANCELED = '57014'
/** `unique_violation`, of a statement with `on conflict`: see {@link isRacingReindex} in errors.ts. */
export const UNIQUE_VIOLATION = '23505'
