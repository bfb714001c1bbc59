// Package forge speaks to GitHub and its kin: it says from the event of a job what
// a bundle has to be about, and shows a verified report on the pull request, as a
// commit status, in the summary and the log of the job.
//
// Everything that comes from an event, an API answer, an artifact or a report is
// untrusted text here: it has limits, and it is neutralised where it is shown.
// The package runs nothing, and has its environment and its writers passed in.
package forge
